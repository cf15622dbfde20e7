#pragma once
// Power and latency of an instance as a function of load (DynamoLLM, HPCA 2025, section IV-A): a few measured loads,
// linear interpolation between them.
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

/// One instance of a TP degree at a clock. Loads ascend from 0. Nothing is known beyond the last.
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

/// The profile interpolated at a load; none beyond its last point.
[[nodiscard]] std::optional<LoadPoint> at_load(const ShardProfile& profile, double load_per_s);

/// The largest load within the limits at this clock, requests per second; none if every load misses them.
[[nodiscard]] std::optional<double> most_load(const ShardProfile& profile, const ShardLimits& limits);

/// The profile without the top `share` of most_load(): capacity that is kept free is not planned with, and power is
/// that of the actual load. Unchanged if every load misses the limits.
[[nodiscard]] ShardProfile keep_free(ShardProfile profile, const ShardLimits& limits, double share);

/// A range of load over which one clock draws least within the limits: power = fixed + per_load x load.
struct PowerSegment {
  int tp = 1;
  MegaHertz clock;
  double from_per_s = 0.0, to_per_s = 0.0;
  double fixed_w = 0.0, w_per_load = 0.0;
};

/// Least power as a function of load over all clocks of each TP degree, within the limits; ordered by TP, then load.
/// `top_clock_only`: only the highest clock of each TP degree.
[[nodiscard]] std::vector<PowerSegment> least_power(const std::vector<ShardProfile>& profiles,
                                                    const ShardLimits& limits, bool top_clock_only);

/// Errors: no points, a first load other than 0, loads that do not ascend, numbers that are not finite.
[[nodiscard]] Result<void> check_profile(const ShardProfile& profile, const std::string& where);

/// The limits without those that no profile meets, at any clock and however low the load.
[[nodiscard]] ShardLimits reachable_limits(const std::vector<ShardProfile>& profiles, const ShardLimits& limits);

/// Why no profile meets the limits: the nearest one and what it misses. For people.
[[nodiscard]] std::string nearest_profile(const std::vector<ShardProfile>& profiles, const ShardLimits& limits);

}  // namespace wattle::plan
