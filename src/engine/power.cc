#include "engine/power.h"

#include <algorithm>
#include <cmath>

namespace wattle::engine {

PowerAtClock::PowerAtClock(const HardwareProfile& profile, double x)
    : idle_w_(profile.idle_floor_w +
              (profile.idle_clock_w - profile.rest_w) * std::pow(x, profile.idle_clock_exponent)) {
  const double voltage = std::pow(std::max(profile.voltage_floor, x), profile.voltage_exponent);
  active_w_ = profile.active_w * (1.0 - profile.active_clock_share + profile.active_clock_share * x * voltage) +
              profile.rest_w * std::pow(x, profile.idle_clock_exponent);
  busy_w_ = profile.busy_w * x * voltage;
  joules_per_flop_ = profile.tensor_pj_per_flop * 1e-12 * voltage;
  joules_per_byte_ = profile.memory_pj_per_byte * 1e-12 *
                     (1.0 - profile.memory_voltage_share + profile.memory_voltage_share * voltage);
}

}  // namespace wattle::engine
