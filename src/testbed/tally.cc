#include "testbed/tally.h"

#include <utility>

#include "net/clock.h"

namespace wattle::testbed {

Tally::Tally(const std::vector<node::Gpu>& gpus, House& house) : gpus_(gpus), house_(house), begin_(net::steady_now()) {
  last_at_ = begin_;
  look();
  energy_j_ = gpu_seconds_ = 0.0;
}

const Meters& Tally::look() {
  const auto before = std::exchange(running_, house_.running());
  const auto last = std::exchange(meters_, {}).energy_j;
  const Instant now = net::steady_now();
  const double seconds = (now - last_at_).seconds();
  last_at_ = now;
  std::size_t g = 0;
  for (std::size_t i = 0; i < running_.size(); ++i) {
    // One that came or went since the last look is counted for all of that time.
    const bool ours = running_[i] || (i < before.size() && before[i]);
    for (std::size_t k = 0; k < house_.engines()[i].gpus.size() && g < gpus_.size(); ++k, ++g) {
      meters_.energy_j.push_back(static_cast<double>(gpus_[g].energy_counter_mj().value) * 1e-3);
      meters_.powers.push_back(gpus_[g].power().value);
      meters_.clocks_mhz.push_back(running_[i] ? gpus_[g].sm_clock().value.value() : 0);
      if (running_[i]) meters_.power_w += to_watts(meters_.powers.back()).value();
      if (!ours || g >= last.size()) continue;
      energy_j_ += meters_.energy_j[g] - last[g];
      gpu_seconds_ += seconds;
    }
  }
  return meters_;
}

double Tally::mean_gpus() const {
  const double seconds = (last_at_ - begin_).seconds();
  return seconds > 0.0 ? gpu_seconds_ / seconds : 0.0;
}

}  // namespace wattle::testbed
