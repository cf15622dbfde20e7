#pragma once
// Grid carbon intensity against time: a constant, or steps read from the CSV forms grid data comes in.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::carbon {

/// Piecewise-constant gCO2eq/kWh. Before its first point a series has the first value, after its end the last one;
/// covers() tells whether an Instant lies in the data rather than in such an extension.
class IntensitySeries {
 public:
  struct Point {
    Instant from;  ///< the value holds from here to the next point
    GramsPerKwh intensity;
  };

  [[nodiscard]] static IntensitySeries constant(GramsPerKwh intensity);
  /// `points` must ascend strictly and be finite; `end` is where the last value's span ends. Marginal intensities may
  /// be negative. Errors: where = "point N".
  [[nodiscard]] static Result<IntensitySeries> from_points(std::vector<Point> points, Instant end = Instant::never());

  [[nodiscard]] GramsPerKwh at(Instant t) const;
  /// First Instant after t where a new value begins; never() when there is none.
  [[nodiscard]] Instant next_change_after(Instant t) const;
  [[nodiscard]] bool covers(Instant t) const { return constant_ || (t >= points_.front().from && t < end_); }
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] Instant end() const { return end_; }

 private:
  IntensitySeries(std::vector<Point> points, Instant end, bool constant)
      : points_(std::move(points)), end_(end), constant_(constant) {}

  std::vector<Point> points_;  ///< never empty
  Instant end_;
  bool constant_;
};

/// Which columns of a CSV hold time (UTC) and intensity, and what one unit of the latter is in gCO2eq/kWh.
struct IntensityForm {
  std::string time_column;
  std::string value_column;
  double grams_per_kwh = 1.0;
};

inline constexpr double kGramsPerKwhInLbsPerMwh = 0.45359237;  ///< 453.59237 g a pound, 1000 kWh a MWh

/// Electricity Maps, hourly: operational emissions only, or with the plants' life cycle. Both the portal's headers
/// ("Datetime (UTC)", "Carbon intensity gCO2eq/kWh (direct)") and the cleaned ones ("datetime_utc",
/// "ci_direct_gco2_kwh") are known.
[[nodiscard]] IntensityForm electricity_maps_direct();
[[nodiscard]] IntensityForm electricity_maps_lifecycle();
/// WattTime marginal rates (MOER), 5-minute, in lbs/MWh as the API serves them.
[[nodiscard]] IntensityForm watttime_moer();
/// WattTime rates already converted to g/kWh under a region's name (vessim's example file: "oootime,Caiso_North").
[[nodiscard]] IntensityForm watttime_grams(std::string region_column);

/// Reads a series from text. Rows must ascend in equal steps: a gap is an error, since holding a stale value through it
/// would look like data. Instant 0 is `origin_ns` (ns since 1970 UTC), which must lie within the data; without it, the
/// first row. Errors: where = "name:line".
[[nodiscard]] Result<IntensitySeries> parse_intensity(const IntensityForm& form, std::string_view text,
                                                      const std::string& name,
                                                      std::optional<std::int64_t> origin_ns = std::nullopt);
[[nodiscard]] Result<IntensitySeries> load_intensity(const IntensityForm& form, const std::string& path,
                                                     std::optional<std::int64_t> origin_ns = std::nullopt);

}  // namespace wattle::carbon
