#include "feeds/intensity.h"

#include <utility>

#include "base/file.h"
#include "feeds/even_rows.h"

namespace wattle::feeds {

namespace {
/// Above any plant (lignite: about 1,200 g/kWh) even after conversion from lbs/MWh; larger numbers are the wrong unit.
constexpr double kLargest = 5000.0;
}  // namespace

IntensityForm electricity_maps_direct() {
  return {.time_column = "datetime_utc|Datetime (UTC)",
          .value_column =
              "ci_direct_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (direct)|Carbon Intensity gCO\u2082eq/kWh (direct)",
          .estimated_column = "estimated|Data estimated"};
}

IntensityForm electricity_maps_lifecycle() {
  return {.time_column = "datetime_utc|Datetime (UTC)",
          .value_column =
              "ci_lifecycle_gco2_kwh|Carbon intensity gCO\u2082eq/kWh (Life cycle)|Carbon Intensity gCO\u2082eq/kWh "
              "(LCA)",
          .estimated_column = "estimated|Data estimated"};
}

IntensityForm watttime_moer() {
  return {.time_column = "timestamp|point_time",
          .value_column = "MOER|value",
          .grams_per_kwh = kGramsPerKwhInLbsPerMwh,
          .kind = IntensityKind::Marginal};
}

IntensityForm watttime_grams(std::string region_column) {
  return {.time_column = "oootime|time|timestamp|point_time",
          .value_column = std::move(region_column),
          .kind = IntensityKind::Marginal};
}

IntensityForm freesh_slots(std::string site_column) {
  return {.time_column = "slot_5min",
          .value_column = std::move(site_column),
          .grams_per_kwh = kGramsPerKwhInLbsPerMwh,
          .kind = IntensityKind::Marginal,
          .slot = Span::s(300)};
}

IntensityForm eia_average() { return {.time_column = "datetime_utc", .value_column = "avg_ci_gco2_kwh"}; }

Result<IntensitySeries> parse_intensity(const IntensityForm& form, std::string_view text, const std::string& name,
                                        std::optional<std::int64_t> origin_ns) {
  return even_series<GramsPerKwh>({form.time_column, form.value_column, 0.0, kLargest / form.grams_per_kwh},
                                  form.grams_per_kwh, text, name, origin_ns);
}

Result<IntensitySeries> load_intensity(const IntensityForm& form, const std::string& path,
                                       std::optional<std::int64_t> origin_ns) {
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  return parse_intensity(form, *text, path, origin_ns);
}

}  // namespace wattle::feeds
