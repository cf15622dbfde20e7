#include "carbon/series.h"

#include <fmt/core.h>

#include <array>
#include <utility>

#include "base/csv.h"
#include "base/file.h"
#include "base/timestamp.h"

namespace wattle::carbon {

namespace {
/// Steps are minutes to hours. The bound finds a garbled first or second time, and keeps the end of the last step
/// within 64 bits of nanoseconds.
constexpr std::int64_t kLongestStepNs = std::int64_t{31} * 86'400 * 1'000'000'000;
constexpr const char* kTimeColumns =
    "oootime|time|timestamp|point_time|datetime_utc|Datetime (UTC)|INTERVALSTARTTIME_GMT";
}  // namespace

SeriesForm electricity_maps_direct() {
  return {"datetime_utc|Datetime (UTC)",
          "ci_direct_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (direct)|Carbon Intensity gCO\u2082eq/kWh (direct)"};
}

SeriesForm electricity_maps_lifecycle() {
  return {"datetime_utc|Datetime (UTC)",
          "ci_lifecycle_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (Life cycle)|Carbon Intensity gCO\u2082eq/kWh (LCA)"};
}

SeriesForm watttime_moer() { return {"timestamp|point_time", "MOER|value", kGramsPerKwhInLbsPerMwh}; }

SeriesForm grams_column(std::string column) { return {kTimeColumns, std::move(column)}; }

SeriesForm caiso_price() { return price_column("VALUE"); }

SeriesForm price_column(std::string column) {
  // Prices below zero are common where the sun shines; beyond these bounds it is the wrong unit (USD/kWh, cents).
  return {kTimeColumns, std::move(column), 1.0, -10'000.0, 100'000.0};
}

template <typename Value>
Result<Series<Value>> parse_series(const SeriesForm& form, std::string_view text, const std::string& name,
                                   std::optional<std::int64_t> origin_ns, Instant start) {
  const std::array<std::string_view, 2> columns = {form.time_column, form.value_column};
  auto opened = CsvReader::open(text, name, columns);
  if (!opened) return std::unexpected(opened.error());
  CsvReader& csv = *opened;
  std::vector<std::pair<std::int64_t, double>> rows;  // ns since 1970, the series' unit
  std::int64_t step = 0;
  while (true) {
    const auto more = csv.next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto time = parse_timestamp(csv.field(0));
    if (!time) return csv.bad_field(0, "it must be a time like 2024-01-01 00:00:00 (UTC)");
    if (!rows.empty()) {
      const std::int64_t since = *time - rows.back().first;
      if (since <= 0)
        return csv.bad_field(0, fmt::format("it does not lie after the row above; sort by {}", csv.column(0)));
      if (since > kLongestStepNs) return csv.bad_field(0, "it lies more than 31 days after the row above; check both");
      if (step == 0) step = since;
      if (since != step) {
        return csv.bad_field(0,
                             fmt::format("it lies {} s after the row above, the rows before were {} s apart; fill the "
                                         "gap or cut the file there",
                                         static_cast<double>(since) * 1e-9, static_cast<double>(step) * 1e-9));
      }
    }
    const auto value = csv.number(1, form.least / form.scale, form.most / form.scale);
    if (!value) return std::unexpected(value.error());
    rows.emplace_back(*time, *value * form.scale);
  }
  if (rows.size() < 2) return bad_input(csv.where(), "has fewer than two rows, so the length of a step is unknown");
  const std::int64_t end = rows.back().first + step;
  const std::int64_t origin = origin_ns.value_or(rows.front().first);
  const std::int64_t begin = origin + start.ns();
  if (begin < rows.front().first || begin >= end) {
    return bad_input(name,
                     fmt::format("covers {} to {} UTC, which does not hold the start {}; choose a start within",
                                 format_timestamp(rows.front().first), format_timestamp(end), format_timestamp(begin)));
  }
  std::vector<typename Series<Value>::Point> points;
  points.reserve(rows.size());
  for (const auto& [time, value] : rows) points.push_back({Instant(time - origin), Value(value)});
  return Series<Value>::from_points(std::move(points), Instant(end - origin));
}

template <typename Value>
Result<Series<Value>> load_series(const SeriesForm& form, const std::string& path,
                                  std::optional<std::int64_t> origin_ns, Instant start) {
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  return parse_series<Value>(form, *text, path, origin_ns, start);
}

template Result<IntensitySeries> parse_series(const SeriesForm&, std::string_view, const std::string&,
                                              std::optional<std::int64_t>, Instant);
template Result<IntensitySeries> load_series(const SeriesForm&, const std::string&, std::optional<std::int64_t>,
                                             Instant);
template Result<PriceSeries> parse_series(const SeriesForm&, std::string_view, const std::string&,
                                          std::optional<std::int64_t>, Instant);
template Result<PriceSeries> load_series(const SeriesForm&, const std::string&, std::optional<std::int64_t>, Instant);

}  // namespace wattle::carbon
