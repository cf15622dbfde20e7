#include "feeds/intensity.h"

#include <utility>

#include "carbon/series.h"

namespace wattle::feeds {

namespace {
/// The form of a series with what feeds require in addition.
IntensityForm form_of(carbon::SeriesForm form, IntensityKind kind, const char* estimated_column) {
  return {.time_column = std::move(form.time_column),
          .value_column = std::move(form.value_column),
          .grams_per_kwh = form.scale,
          .kind = kind,
          .estimated_column = estimated_column};
}
}  // namespace

IntensityForm electricity_maps_direct() {
  return form_of(carbon::electricity_maps_direct(), IntensityKind::Average, "estimated|Data estimated");
}

IntensityForm electricity_maps_lifecycle() {
  return form_of(carbon::electricity_maps_lifecycle(), IntensityKind::Average, "estimated|Data estimated");
}

IntensityForm watttime_moer() { return form_of(carbon::watttime_moer(), IntensityKind::Marginal, ""); }

IntensityForm watttime_grams(std::string region_column) {
  return {.time_column = "oootime|time|timestamp|point_time",
          .value_column = std::move(region_column),
          .kind = IntensityKind::Marginal};
}

IntensityForm grams_column(std::string column, IntensityKind kind) {
  return form_of(carbon::grams_column(std::move(column)), kind, "");
}

IntensityForm eia_average() { return {.time_column = "datetime_utc", .value_column = "avg_ci_gco2_kwh"}; }

}  // namespace wattle::feeds
