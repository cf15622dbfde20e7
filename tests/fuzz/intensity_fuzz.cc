// Carbon-intensity CSV in the forms of both providers.
#include <cmath>

#include "carbon/series.h"
#include "fuzz.h"

namespace wattle::fuzz {

namespace {
std::string broken_rule(const carbon::IntensitySeries& series, const carbon::SeriesForm& form) {
  if (series.points().empty()) return "a series without points was accepted";
  if (series.points().front().from != Instant()) return "the first point is not at 0";
  Instant before(-1);
  for (const auto& point : series.points()) {
    if (point.from <= before) return "points out of order were accepted";
    const double v = point.value.value();
    if (!std::isfinite(v) || v < form.least || v > form.most) return "an intensity beyond its form's was accepted";
    before = point.from;
  }
  return series.end() > before ? "" : "the series ends before its last point";
}
}  // namespace

std::vector<std::string> seeds() {
  return {
      "datetime_utc,ci_direct_gco2_kwh,ci_lifecycle_gco2_kwh,low_carbon_pct,renewable_pct,estimated\n"
      "2023-11-01 00:00:00,274.38,351.66,39.19,32.64,0\n2023-11-01 01:00:00,293.02,374.49,34.73,27.37,0\n"
      "2023-11-01 02:00:00,289.01,370.66,35.29,27.23,0\n",
      "timestamp,MOER\r\n2023-06-08 00:00:00+00:00,937\r\n2023-06-08 00:05:00+00:00,953.5\r\n",
      "oootime,Caiso_North\n2023-06-08 00:00:00,425.01605069\n2023-06-08 00:05:00,432.27352861\n"};
}

Verdict parse(std::string_view input) {
  Verdict verdict;
  for (const auto& form : {carbon::electricity_maps_direct(), carbon::electricity_maps_lifecycle(),
                           carbon::watttime_moer(), carbon::grams_column("Caiso_North")}) {
    const auto series = carbon::parse_series<GramsPerKwh>(form, input, "fuzz");
    const Verdict one = series ? Verdict{true, broken_rule(*series, form)} : rejected(series.error(), "fuzz");
    if (!one.broken_rule.empty()) return one;
    verdict.accepted |= one.accepted;
  }
  return verdict;
}

}  // namespace wattle::fuzz
