#pragma once
// Token gaps in bulk: many affine decode steps go into the histogram without visiting each.
#include <cstdint>

#include "base/histogram.h"
#include "base/wide.h"
#include "units/time.h"

namespace wattle::journal {

/// Durations arrive as fixed-point nanoseconds with this many fractional bits (the engine's own resolution).
inline constexpr int kGapFractionBits = 20;

/// Histogram of gaps (whole ns, floored), exact mean. Every result is an integer sum, so it
/// does not depend on the order or the grouping of the additions.
class GapHistogram {
 public:
  void add(Span gap, std::int64_t count = 1);
  /// `steps` gaps of (first + i x increment) / 2^20 ns, each seen by `count` requests. Identical to adding them one by
  /// one with steps = 1; cost grows with the histogram buckets crossed (each 0.8 % wide), not with steps. All durations
  /// must lie in [0, 2^63) fixed point (8796 s).
  void add_affine(std::int64_t first, std::int64_t increment, std::int64_t steps, std::int64_t count);

  [[nodiscard]] const Histogram& histogram() const { return histogram_; }
  [[nodiscard]] std::int64_t count() const { return histogram_.count(); }
  /// Mean in ns before flooring; 0 when empty.
  [[nodiscard]] double mean_ns() const;

 private:
  /// The whole nanoseconds of it, and it.
  void add(std::int64_t ns, const Int128& fixed, std::int64_t count);

  Histogram histogram_;
  Int128 sum_ = 0;  ///< fixed-point ns
};

}  // namespace wattle::journal
