#pragma once
// What an intensity counts, and the CSV forms that grid data comes in.
#include <cstdint>
#include <string>

#include "carbon/series.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::feeds {

/// gCO2eq/kWh against time. Marginal intensities may be negative.
using carbon::IntensitySeries;

/// What an intensity counts. Short-run marginal fits a decision within the hour, average fits the books
/// (ISO/IEC 21031, SCI); the two differ by a factor and are never mixed.
enum class IntensityKind : std::uint8_t {
  Average,   ///< all emissions of the grid over all its generation
  Marginal,  ///< what one more kWh causes
};

/// Which columns of a CSV hold time (UTC) and intensity, and what one unit of the latter is in gCO2eq/kWh.
struct IntensityForm {
  std::string time_column;
  std::string value_column;
  double grams_per_kwh = 1.0;
  IntensityKind kind = IntensityKind::Average;
  std::string estimated_column = "";  ///< 1 where the provider filled a gap; "": the file has none
};

/// Electricity Maps, hourly: operational emissions only, or with the plants' life cycle. Both the portal's headers
/// ("Datetime (UTC)", "Carbon intensity gCO2eq/kWh (direct)") and the cleaned ones ("datetime_utc",
/// "ci_direct_gco2_kwh") are known.
[[nodiscard]] IntensityForm electricity_maps_direct();
[[nodiscard]] IntensityForm electricity_maps_lifecycle();
/// WattTime marginal rates (MOER), 5-minute, in lbs/MWh as the API serves them.
[[nodiscard]] IntensityForm watttime_moer();
/// WattTime rates already converted to g/kWh under a region's name (vessim's example file: "oootime,Caiso_North").
[[nodiscard]] IntensityForm watttime_grams(std::string region_column);
/// g/kWh in a column of any name.
[[nodiscard]] IntensityForm grams_column(std::string column, IntensityKind kind);
/// EIA hourly mix files with an intensity of their own ("avg_ci_gco2_kwh"); see also generation_mix.h.
[[nodiscard]] IntensityForm eia_average();

}  // namespace wattle::feeds
