#include "carbon/series.h"

#include <fmt/core.h>

#include <utility>

#include "base/even_rows.h"
#include "base/file.h"
#include "base/timestamp.h"

namespace wattle::carbon {

namespace {
constexpr const char* kTimeColumns =
    "oootime|time|timestamp|point_time|datetime|datetime_utc|Datetime (UTC)|INTERVALSTARTTIME_GMT";
constexpr double kMostIntensity = SeriesForm{}.most;
}  // namespace

SeriesForm electricity_maps_direct() {
  return {"datetime_utc|Datetime (UTC)",
          "ci_direct_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (direct)|Carbon Intensity gCO\u2082eq/kWh (direct)"};
}

SeriesForm electricity_maps_lifecycle() {
  return {"datetime_utc|Datetime (UTC)",
          "ci_lifecycle_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (Life cycle)|Carbon Intensity gCO\u2082eq/kWh (LCA)"};
}

// Marginal: where one more kWh lets a plant that would be turned down run on, it may be below zero.
SeriesForm watttime_moer() {
  return {"timestamp|point_time", "MOER|value", kGramsPerKwhInLbsPerMwh, -kMostIntensity, kMostIntensity};
}

SeriesForm grams_column(std::string column) {
  return {kTimeColumns, std::move(column), 1.0, -kMostIntensity, kMostIntensity};
}

SeriesForm caiso_price() { return price_column("VALUE"); }

SeriesForm price_column(std::string column) {
  // Prices below zero are common where the sun shines; beyond these bounds it is the wrong unit (USD/kWh, cents).
  return {kTimeColumns, std::move(column), 1.0, -10'000.0, 100'000.0};
}

template <typename Value>
Result<Series<Value>> parse_series(const SeriesForm& form, std::string_view text, const std::string& name,
                                   std::optional<std::int64_t> origin_ns, Instant start) {
  const auto read = read_even_rows(
      {form.time_column, form.value_column, form.least / form.scale, form.most / form.scale}, text, name);
  if (!read) return std::unexpected(read.error());
  const std::int64_t first = read->rows.front().first;
  const std::int64_t origin = origin_ns.value_or(first);
  const std::int64_t begin = origin + start.ns();
  if (begin < first || begin >= read->end_ns) {
    return bad_input(name,
                     fmt::format("covers {} to {} UTC, which does not hold the start {}; choose a start within",
                                 format_timestamp(first), format_timestamp(read->end_ns), format_timestamp(begin)));
  }
  std::vector<typename Series<Value>::Point> points;
  points.reserve(read->rows.size());
  for (const auto& [time, value] : read->rows) points.push_back({Instant(time - origin), Value(value * form.scale)});
  return Series<Value>::from_points(std::move(points), Instant(read->end_ns - origin));
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
