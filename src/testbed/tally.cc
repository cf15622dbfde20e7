#include "testbed/tally.h"

namespace wattle::testbed {

Readings look(const std::vector<node::Gpu>& gpus, EmulatedFleet& fleet) {
  Readings readings;
  const auto running = fleet.running();
  std::size_t g = 0;
  for (std::size_t i = 0; i < running.size(); ++i) {
    for (std::size_t k = 0; k < fleet.engines()[i].gpus.size() && g < gpus.size(); ++k, ++g) {
      readings.clocks_mhz.push_back(running[i] ? gpus[g].sm_clock().value.value() : 0);
      if (running[i]) readings.power_w += to_watts(gpus[g].power().value).value();
    }
  }
  return readings;
}

}  // namespace wattle::testbed
