#include "engine/power.h"

#include <cmath>

namespace wattle::engine {

PowerAtClock::PowerAtClock(const HardwareProfile& profile, double x)
    : idle_w_(profile.idle_floor_w + profile.idle_clock_w * std::pow(x, profile.idle_clock_exponent)),
      busy_w_(profile.busy_w * std::pow(x, profile.busy_exponent)),
      joules_per_flop_(profile.tensor_pj_per_flop * 1e-12 * std::pow(x, profile.tensor_exponent)),
      joules_per_byte_(profile.memory_pj_per_byte * 1e-12 * std::pow(x, profile.memory_exponent)) {}

}  // namespace wattle::engine
