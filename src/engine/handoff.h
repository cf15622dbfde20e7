#pragma once
#include <cmath>
#include <cstdint>

namespace wattle::engine {

/// What the `n`-th hand-over's wait is over the mean (LinkOptions::handoff_steps): the exponential distribution's
/// quantiles in golden-ratio order, so that a few dozen hand-overs average to the mean, simulated and live alike.
[[nodiscard]] inline double handoff_wait(std::uint64_t n) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  double whole = 0.0;
  return -std::log1p(-std::modf((static_cast<double>(n) + 0.5) * kGoldenRatio, &whole));
}

}  // namespace wattle::engine
