#pragma once
// What the virtual GPUs of a house do just now, by their own readings. What they have drawn is for the gateway's ledger
// to say (House::usage).
#include <vector>

#include "node/gpu/nvml.h"
#include "testbed/house.h"

namespace wattle::testbed {

struct Readings {
  double power_w = 0.0;                  ///< of GPUs whose engine runs
  std::vector<std::int32_t> clocks_mhz;  ///< 0: its engine does not run
};

/// `gpus` by index, as the house's engines take them.
[[nodiscard]] Readings look(const std::vector<node::Gpu>& gpus, House& house);

}  // namespace wattle::testbed
