#pragma once
// Grid data against time, carbon intensity or electricity price: a constant, or steps read from the CSV forms such data
// comes in.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::carbon {

/// Piecewise-constant values. Before its first point a series has the first value, after its end and in a gap the last
/// one; covers() tells whether an Instant lies in the data rather than in such an extension.
template <typename Value>
class Series {
 public:
  struct Point {
    Instant from;  ///< the value holds from here to the next point
    Value value;
    bool known = true;  ///< false: a gap begins here, in which `value` is a guess
  };

  [[nodiscard]] static Series constant(Value value) { return {{Point{Instant(), value}}, Instant::never(), true}; }
  /// Nothing is known yet; `guess` is what at() says.
  [[nodiscard]] static Series unknown(Value guess) {
    return {{Point{Instant(), guess, false}}, Instant::never(), false};
  }
  /// `points` must ascend strictly and be finite; `end` is where the last value's span ends. Marginal intensities and
  /// prices may be negative. Errors: where = "point N".
  [[nodiscard]] static Result<Series> from_points(std::vector<Point> points, Instant end = Instant::never()) {
    if (points.empty()) return bad_input("points", "there are none; a series needs at least one");
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto where = [i] { return "point " + std::to_string(i); };
      if (!std::isfinite(points[i].value.value())) return bad_input(where(), "its value is not a finite number");
      if (i > 0 && points[i].from <= points[i - 1].from) {
        return bad_input(where(), "does not lie after the point before; sort them by time");
      }
    }
    if (end <= points.back().from) return bad_input("end", "does not lie after the last point");
    return Series(std::move(points), end, false);
  }

  [[nodiscard]] Value at(Instant t) const {
    const auto after = std::ranges::upper_bound(points_, t, {}, &Point::from);
    return (after == points_.begin() ? *after : *(after - 1)).value;
  }
  /// First Instant after t where a new value begins; never() when there is none.
  [[nodiscard]] Instant next_change_after(Instant t) const {
    // The first point begins nothing new: its value holds before it too.
    const auto after = std::upper_bound(points_.begin() + 1, points_.end(), t,
                                        [](Instant value, const Point& point) { return value < point.from; });
    return after == points_.end() ? Instant::never() : after->from;
  }
  /// It lies in the data, and in no gap of theirs.
  [[nodiscard]] bool covers(Instant t) const {
    if (constant_) return true;
    if (t < points_.front().from || t >= end_) return false;
    return (std::ranges::upper_bound(points_, t, {}, &Point::from) - 1)->known;
  }
  /// What at(t) and covers(t) say holds up to here: the next change, or the end of the data.
  [[nodiscard]] Instant holds_until(Instant t) const {
    if (constant_) return Instant::never();
    const Instant next = next_change_after(t);
    return t < end_ ? std::min(next, end_) : next;
  }
  [[nodiscard]] bool constant() const { return constant_; }
  /// The same values, counted from `origin`.
  [[nodiscard]] Series from(Instant origin) const {
    if (constant_) return *this;
    Series moved = *this;
    for (Point& point : moved.points_) point.from = Instant() + (point.from - origin);
    if (end_ != Instant::never()) moved.end_ = Instant() + (end_ - origin);
    return moved;
  }
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] Instant end() const { return end_; }

 private:
  Series(std::vector<Point> points, Instant end, bool constant)
      : points_(std::move(points)), end_(end), constant_(constant) {}

  std::vector<Point> points_;  ///< never empty
  Instant end_;
  bool constant_;
};

using IntensitySeries = Series<GramsPerKwh>;
using PriceSeries = Series<UsdPerMwh>;

/// Which columns of a CSV hold time (UTC) and value, what one unit of the latter is in the series' own unit, and
/// between which numbers of that unit it must lie.
struct SeriesForm {
  std::string time_column;
  std::string value_column;
  double scale = 1.0;
  double least = 0.0;
  double most = 5000.0;
};

/// Electricity Maps, hourly: operational emissions only, or with the plants' life cycle. Both the portal's headers
/// ("Datetime (UTC)", "Carbon intensity gCO2eq/kWh (direct)") and the cleaned ones ("datetime_utc",
/// "ci_direct_gco2_kwh") are known.
[[nodiscard]] SeriesForm electricity_maps_direct();
[[nodiscard]] SeriesForm electricity_maps_lifecycle();
/// WattTime marginal rates (MOER), 5-minute, in lbs/MWh as the API serves them.
[[nodiscard]] SeriesForm watttime_moer();
/// g/kWh, average or marginal, in a column of any name (vessim's example file: "oootime,Caiso_North").
[[nodiscard]] SeriesForm grams_column(std::string column);
/// CAISO OASIS prices, 5-minute, in USD/MWh: "INTERVALSTARTTIME_GMT" and "VALUE".
[[nodiscard]] SeriesForm caiso_price();
/// USD/MWh in a column of any name.
[[nodiscard]] SeriesForm price_column(std::string column);

/// Reads a series from text. Rows must ascend in equal steps: a gap is an error, since holding a stale value through it
/// would look like data. Instant 0 is `origin_ns` (ns since 1970 UTC); without it, the first row. At `start` after the
/// origin the data must have begun and not ended. Errors: where = "name:line".
template <typename Value>
[[nodiscard]] Result<Series<Value>> parse_series(const SeriesForm& form, std::string_view text, const std::string& name,
                                                 std::optional<std::int64_t> origin_ns = std::nullopt,
                                                 Instant start = Instant());
template <typename Value>
[[nodiscard]] Result<Series<Value>> load_series(const SeriesForm& form, const std::string& path,
                                                std::optional<std::int64_t> origin_ns = std::nullopt,
                                                Instant start = Instant());

}  // namespace wattle::carbon
