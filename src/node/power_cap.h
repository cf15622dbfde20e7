#pragma once
// A power limit in place of a clock, for GPUs that take no lock.
#include "node/gpu/gpu.h"

namespace wattle::node {

/// On the straight line from the least limit at the lowest clock (0 if the device does not list its clocks) to the
/// previous limit at the highest. Power under full load is convex in the clock and below the least limit at the lowest,
/// so the line is never below it: at this limit the GPU can always run at `clock`, and faster under partial load.
[[nodiscard]] constexpr Milliwatts power_cap(MegaHertz clock, MegaHertz lowest, MegaHertz highest, Milliwatts least,
                                             Milliwatts before) {
  if (clock >= highest || before <= least) return before;
  if (clock <= lowest) return least;
  const std::int64_t share = (before.value() - least.value()) * (clock.value() - lowest.value());
  return Milliwatts(least.value() + share / (highest.value() - lowest.value()));
}

}  // namespace wattle::node
