#pragma once
// An instance's load profile evaluated at its present clock and recent load.
#include "model/instance.h"
#include "model/load_profile.h"

namespace wattle {

/// The instance's commanded clock, or its highest if none is known.
[[nodiscard]] inline MegaHertz set_clock(const InstanceView& view) {
  return view.clock_commanded > MegaHertz{0} ? view.clock_commanded : view.spec->gpu.clock_max;
}

/// Requests per second of a class that the instance carries within its objectives at its highest clock. Needs
/// Beliefs::load.
[[nodiscard]] inline double most_load_per_s(const InstanceView& view, ClassId request_class) {
  return view.spec->beliefs.load->max_load_per_s(request_class, view.spec->gpu.clock_max);
}

/// The instance's recent load, converted to requests per second of this class. `most`: most_load_per_s() of the class.
[[nodiscard]] inline double present_load_per_s(const InstanceView& view, double most, Instant now) {
  return view.load.at(now) * most;
}

}  // namespace wattle
