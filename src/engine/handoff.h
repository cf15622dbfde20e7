#pragma once
#include <cmath>
#include <cstdint>

namespace wattle::engine {

/// The `n`-th hand-over's wait as a multiple of the mean (LinkOptions::handoff_steps): quantiles of the exponential
/// distribution in golden-ratio order, so that a few dozen hand-overs average to the mean, simulated and live alike.
[[nodiscard]] inline double handoff_wait(std::uint64_t n) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  double whole = 0.0;
  return -std::log1p(-std::modf((static_cast<double>(n) + 0.5) * kGoldenRatio, &whole));
}

}  // namespace wattle::engine
