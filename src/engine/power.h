#pragma once
// Power of one GPU: idle at a locked clock, and during work. Internal to engine/.
#include "engine/hardware_profile.h"
#include "engine/operations.h"

namespace wattle::engine {

/// Coefficients at one clock; x = clock / clock_max.
class PowerAtClock {
 public:
  PowerAtClock(const HardwareProfile& profile, double x);

  [[nodiscard]] double idle_w() const { return idle_w_; }
  /// Mean power over a step of which work.seconds keep the GPU busy and gap_s are spent on the CPU. Not clipped.
  [[nodiscard]] double step_w(const Work& work, double gap_s) const {
    const double total = work.seconds + gap_s;
    return idle_w_ + (active_w_ * work.seconds + busy_w_ * work.busy + joules_per_flop_ * work.flops +
                      joules_per_byte_ * work.bytes) /
                         total;
  }

 private:
  double idle_w_;
  double active_w_;
  double busy_w_;
  double joules_per_flop_;
  double joules_per_byte_;
};

}  // namespace wattle::engine
