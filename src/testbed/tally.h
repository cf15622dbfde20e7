#pragma once
// What the virtual GPUs of a fleet do just now, by their own readings. What they have drawn is for the gateway's ledger
// to say (EmulatedFleet::booked).
#include <vector>

#include "node/gpu/gpu.h"
#include "testbed/emulated_fleet.h"

namespace wattle::testbed {

struct Readings {
  double power_w = 0.0;                  ///< of GPUs whose engine runs
  std::vector<std::int32_t> clocks_mhz;  ///< of those, engine by engine
};

/// `gpus` by index, as the fleet's engines take them.
[[nodiscard]] Readings look(const std::vector<node::Gpu>& gpus, EmulatedFleet& fleet);

}  // namespace wattle::testbed
