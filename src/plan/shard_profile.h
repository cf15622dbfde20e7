#pragma once
// Profiles of instances against load, as DynamoLLM takes them (HPCA 2025, section IV-A): few measured loads, linear in
// between.
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::plan {

struct LoadPoint {
  double load_per_s = 0.0;  ///< requests per second on one instance
  Watts power;              ///< of the whole instance
  Span ttft, tbt;
  bool operator==(const LoadPoint&) const = default;
};

/// One instance of a TP degree at a clock. Loads ascend; the first is 0. Nothing is known beyond the last.
struct ShardProfile {
  int tp = 1;
  MegaHertz clock;
  std::vector<LoadPoint> points;
  bool operator==(const ShardProfile&) const = default;
};

struct ShardLimits {
  Span ttft = Span::max();
  Span tbt = Span::max();
  bool operator==(const ShardLimits&) const = default;
};

/// The profile at a load; none beyond its last point.
[[nodiscard]] std::optional<LoadPoint> at_load(const ShardProfile& profile, double load_per_s);

/// Largest load within the limits at this clock; none if it misses them at every load.
[[nodiscard]] std::optional<double> most_load(const ShardProfile& profile, const ShardLimits& limits);

/// The profile up to all but this share of most_load(): what is kept free is not planned with, and power is that of the
/// load there is. Unchanged where it misses the limits at every load.
[[nodiscard]] ShardProfile keep_free(ShardProfile profile, const ShardLimits& limits, double share);

/// A stretch of load over which one clock draws least within the limits: power = fixed + per_load x load.
struct PowerSegment {
  int tp = 1;
  MegaHertz clock;
  double from_per_s = 0.0, to_per_s = 0.0;
  double fixed_w = 0.0, w_per_load = 0.0;
};

/// Least power against load over all clocks of each TP degree, within the limits. Ordered by TP, then load. With
/// `top_clock_only`, of each TP degree only its highest clock.
[[nodiscard]] std::vector<PowerSegment> least_power(const std::vector<ShardProfile>& profiles,
                                                    const ShardLimits& limits, bool top_clock_only);

/// Errors: no points, a first load other than 0, loads that do not ascend, numbers that are not finite.
[[nodiscard]] Result<void> check_profile(const ShardProfile& profile, const std::string& where);

/// The limits without those that no profile keeps, with whatever clock and however little load.
[[nodiscard]] ShardLimits reachable_limits(const std::vector<ShardProfile>& profiles, const ShardLimits& limits);

/// Why no profile meets the limits: the nearest one and what it misses.
[[nodiscard]] std::string nearest_profile(const std::vector<ShardProfile>& profiles, const ShardLimits& limits);

}  // namespace wattle::plan
