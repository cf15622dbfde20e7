#pragma once
// Present state of a fleet's virtual GPUs, by their readings. Energy comes from the gateway's ledger
// (EmulatedFleet::booked).
#include <string>
#include <vector>

#include "node/gpu/gpu.h"

namespace wattle::testbed {

struct Readings {
  double power_w = 0.0;                  ///< of GPUs whose engine runs
  std::vector<std::int32_t> clocks_mhz;  ///< of those, engine by engine
};

/// `gpus` by index; `engines`: the GPUs of each that runs (EmulatedFleet::running).
[[nodiscard]] Readings look(const std::vector<node::Gpu>& gpus, const std::vector<std::vector<std::string>>& engines);

}  // namespace wattle::testbed
