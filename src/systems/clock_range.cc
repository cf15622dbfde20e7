#include "systems/clock_range.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

namespace wattle::systems {

Result<void> check_clock_range(std::span<const ClockSetting> listed, ClockSetting lowest, const Making& making) {
  const GpuSpec& gpu = making.spec->gpu;
  const auto within = [&](MegaHertz clock) { return clock >= gpu.clock_min && clock <= gpu.clock_max; };
  Making frequency = making;
  frequency.section = "frequency.decode";
  const auto range = fmt::format("{} can lock {} to {} MHz", gpu.name, gpu.clock_min.value(), gpu.clock_max.value());
  if (!within(lowest.on(*making.spec))) return frequency.refuse("lowest_clock_mhz", range);
  const auto clocks = clocks_to_choose(listed, lowest, *making.spec);
  const MeasuredClocks& believed = making.spec->beliefs.clocks;
  if (clocks.empty() && !making.spec->clocks.empty() && believed != MeasuredClocks{}) {
    return frequency.refuse(
        "lowest_clock_mhz",
        fmt::format("{} has no clock from {} MHz on among the {} to {} MHz at which {} was measured", gpu.name,
                    lowest.on(*making.spec).value(), believed.lowest.value(), believed.highest.value(),
                    making.recipe.predictor.file));
  }
  if (clocks.empty() || std::ranges::adjacent_find(clocks, std::greater_equal{}) != clocks.end() ||
      !within(clocks.front()) || !within(clocks.back())) {
    return frequency.refuse("clocks_mhz", "must ascend; " + range);
  }
  return {};
}

}  // namespace wattle::systems
