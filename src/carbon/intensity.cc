#include "carbon/intensity.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/csv.h"
#include "base/file.h"
#include "base/timestamp.h"

namespace wattle::carbon {

namespace {
/// Above any plant (lignite: about 1,200 g/kWh) even after conversion from lbs/MWh; larger numbers are the wrong unit.
constexpr double kLargest = 5000.0;
/// Steps are minutes to hours. The bound finds a garbled first or second time, and keeps the end of the last step
/// within 64 bits of nanoseconds.
constexpr std::int64_t kLongestStepNs = std::int64_t{31} * 86'400 * 1'000'000'000;
}  // namespace

IntensitySeries IntensitySeries::constant(GramsPerKwh intensity) {
  return {{Point{Instant(), intensity}}, Instant::never(), true};
}

Result<IntensitySeries> IntensitySeries::from_points(std::vector<Point> points, Instant end) {
  if (points.empty()) return bad_input("points", "there are none; a series needs at least one");
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].intensity.value())) {
      return bad_input(fmt::format("point {}", i), "its intensity is not a finite number");
    }
    if (i > 0 && points[i].from <= points[i - 1].from) {
      return bad_input(fmt::format("point {}", i), "does not lie after the point before; sort them by time");
    }
  }
  if (end <= points.back().from) return bad_input("end", "does not lie after the last point");
  return IntensitySeries(std::move(points), end, false);
}

GramsPerKwh IntensitySeries::at(Instant t) const {
  const auto after = std::ranges::upper_bound(points_, t, {}, &Point::from);
  return (after == points_.begin() ? *after : *(after - 1)).intensity;
}

Instant IntensitySeries::next_change_after(Instant t) const {
  // The first point begins nothing new: its value holds before it too.
  const auto after = std::upper_bound(points_.begin() + 1, points_.end(), t,
                                      [](Instant value, const Point& point) { return value < point.from; });
  return after == points_.end() ? Instant::never() : after->from;
}

IntensityForm electricity_maps_direct() {
  return {"datetime_utc|Datetime (UTC)",
          "ci_direct_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (direct)|Carbon Intensity gCO\u2082eq/kWh (direct)"};
}

IntensityForm electricity_maps_lifecycle() {
  return {"datetime_utc|Datetime (UTC)",
          "ci_lifecycle_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (Life cycle)|Carbon Intensity gCO\u2082eq/kWh (LCA)"};
}

IntensityForm watttime_moer() { return {"timestamp|point_time", "MOER|value", kGramsPerKwhInLbsPerMwh}; }

IntensityForm watttime_grams(std::string region_column) {
  return {"oootime|time|timestamp|point_time", std::move(region_column)};
}

Result<IntensitySeries> parse_intensity(const IntensityForm& form, std::string_view text, const std::string& name,
                                        std::optional<std::int64_t> origin_ns) {
  const std::array<std::string_view, 2> columns = {form.time_column, form.value_column};
  auto opened = CsvReader::open(text, name, columns);
  if (!opened) return std::unexpected(opened.error());
  CsvReader& csv = *opened;
  std::vector<std::pair<std::int64_t, double>> rows;  // ns since 1970, g/kWh
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
    const auto value = csv.number(1, 0.0, kLargest / form.grams_per_kwh);
    if (!value) return std::unexpected(value.error());
    rows.emplace_back(*time, *value * form.grams_per_kwh);
  }
  if (rows.size() < 2) return bad_input(csv.where(), "has fewer than two rows, so the length of a step is unknown");
  const std::int64_t end = rows.back().first + step;
  const std::int64_t origin = origin_ns.value_or(rows.front().first);
  if (origin < rows.front().first || origin >= end) {
    return bad_input(
        name, fmt::format("covers {} to {} UTC, which does not hold the start {}; choose a start within",
                          format_timestamp(rows.front().first), format_timestamp(end), format_timestamp(origin)));
  }
  std::vector<IntensitySeries::Point> points;
  points.reserve(rows.size());
  for (const auto& [time, grams] : rows) points.push_back({Instant(time - origin), GramsPerKwh(grams)});
  return IntensitySeries::from_points(std::move(points), Instant(end - origin));
}

Result<IntensitySeries> load_intensity(const IntensityForm& form, const std::string& path,
                                       std::optional<std::int64_t> origin_ns) {
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  return parse_intensity(form, *text, path, origin_ns);
}

}  // namespace wattle::carbon
