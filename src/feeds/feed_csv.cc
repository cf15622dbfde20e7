#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/csv.h"
#include "base/timestamp.h"
#include "feeds/feed.h"

namespace wattle::feeds {

namespace {

/// Opens the file, with the estimated column if it has one.
Result<CsvReader> open(const IntensityForm& form, std::string_view text, const std::string& name, bool& has_flag) {
  std::vector<std::string_view> columns = {form.time_column, form.value_column};
  if (!form.estimated_column.empty()) {
    columns.push_back(form.estimated_column);
    if (auto with_flag = CsvReader::open(text, name, columns)) {
      has_flag = true;
      return with_flag;
    }
    columns.pop_back();
  }
  has_flag = false;
  return CsvReader::open(text, name, columns);
}

/// A column's name seldom states its unit. No grid's whole series is between 0 and 2 g/kWh, but any grid's in kg/kWh is
/// (lignite: 1.2). Values of 0 or below imply grams: few grids have them, and no wrong unit causes them.
Result<void> check_unit(const Feed& feed, const std::string& name) {
  constexpr double kLeastHighest = 2.0;
  double highest = 0.0;
  for (const Reading& reading : feed.readings()) {
    if (!reading.value) continue;
    if (reading.value->value() <= 0.0) return {};
    highest = std::max(highest, reading.value->value());
  }
  if (highest >= kLeastHighest) return {};
  return bad_input(name, fmt::format("never exceeds {:g} g/kWh; are these kg/kWh? Multiply them by 1000. If a grid is "
                                     "that clean at all times, state a constant instead",
                                     highest));
}

Result<Instant> time_of(const CsvReader& csv) {
  const auto time = parse_timestamp(csv.field(0));
  if (!time) return csv.bad_field(0, "it must be a time like 2024-01-01 00:00:00 (UTC), or with its offset");
  return Instant(*time);
}
}  // namespace

Result<Feed> parse_feed_csv(const IntensityForm& form, FeedLabel label, std::string_view text,
                            const std::string& name) {
  bool has_flag = false;
  auto opened = open(form, text, name, has_flag);
  if (!opened) return std::unexpected(opened.error());
  CsvReader& csv = *opened;
  label.kind = form.kind;
  FeedBuilder builder(std::move(label));
  while (true) {
    const auto more = csv.next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto time = time_of(csv);
    if (!time) return std::unexpected(time.error());
    Reading reading{.from = *time, .value = std::nullopt};
    if (!csv.is_absent(1)) {
      // the builder checks the range, because it knows the unit
      const auto value = csv.number(1, std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max());
      if (!value) return std::unexpected(value.error());
      reading.value = GramsPerKwh(*value * form.grams_per_kwh);
    }
    reading.estimated = has_flag && (csv.field(2) == "1" || csv.field(2) == "true" || csv.field(2) == "True");
    builder.add(reading);
  }
  auto feed = std::move(builder).build(name);
  if (!feed) return feed;
  if (auto ok = check_unit(*feed, name); !ok) return std::unexpected(ok.error());
  return feed;
}

}  // namespace wattle::feeds
