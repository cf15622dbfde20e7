#include "testbed/tally.h"

#include <cstdlib>

namespace wattle::testbed {

Readings look(const std::vector<node::Gpu>& gpus, const std::vector<std::vector<std::string>>& engines) {
  Readings readings;
  for (const auto& engine : engines) {
    for (const std::string& gpu : engine) {
      const auto g = static_cast<std::size_t>(std::strtoul(gpu.c_str(), nullptr, 10));
      if (g >= gpus.size()) continue;
      readings.clocks_mhz.push_back(gpus[g].sm_clock().value.value());
      readings.power_w += to_watts(gpus[g].power().value).value();
    }
  }
  return readings;
}

}  // namespace wattle::testbed
