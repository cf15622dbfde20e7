#pragma once
// What the virtual GPUs of a house drew, by their own counters.
#include <vector>

#include "node/gpu/nvml.h"
#include "testbed/house.h"
#include "units/time.h"

namespace wattle::testbed {

/// What the virtual GPUs' own counters say.
struct Meters {
  double power_w = 0.0;  ///< of those whose engine runs
  std::vector<double> energy_j;
  std::vector<Milliwatts> powers;
  std::vector<std::int32_t> clocks_mhz;
};

/// Sums up what the GPUs of running engines drew; of the others nothing is ours.
class Tally {
 public:
  Tally(const std::vector<node::Gpu>& gpus, House& house);
  const Meters& look();
  [[nodiscard]] double energy_j() const { return energy_j_; }
  [[nodiscard]] double mean_gpus() const;

 private:
  const std::vector<node::Gpu>& gpus_;
  House& house_;
  Instant begin_;
  Instant last_at_;
  std::vector<bool> running_;
  Meters meters_;
  double energy_j_ = 0.0;
  double gpu_seconds_ = 0.0;
};

}  // namespace wattle::testbed
