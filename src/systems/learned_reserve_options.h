#pragma once
// Keys of managers::LearnedReserve, the same for all planners that have one.
#include <vector>

#include "config/option.h"
#include "managers/learned_reserve.h"

namespace wattle::systems {

[[nodiscard]] inline std::vector<config::Option<managers::LearnedReserveOptions>> learned_reserve_options() {
  using config::option;
  using R = managers::LearnedReserveOptions;
  return {
      option("gain", &R::gain, "", {0, 10},
             "Gain of a learned reserve, a share of the instances' capacity kept free in addition to the margins: each "
             "minute it changes by this, times the share of late requests beyond reserve_late. 0: no reserve (paper)"),
      option(
          "late", &R::late, "", {0, 1},
          "Share of requests that may miss their objectives, in addition to those that no instance can serve in time"),
      option("most", &R::most, "", {0, 0.95}, "Upper bound of the learned reserve"),
  };
}

}  // namespace wattle::systems
