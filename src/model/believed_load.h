#pragma once
// An instance's load profile read for the instance as it is: the clock it has, the load it was given of late.
#include "model/instance.h"
#include "model/load_profile.h"

namespace wattle {

/// The clock an instance is set to, or its highest where that is not known.
[[nodiscard]] inline MegaHertz set_clock(const InstanceView& view) {
  return view.clock_commanded > MegaHertz{0} ? view.clock_commanded : view.spec->gpu.clock_max;
}

/// Requests per second of a class that it carries within its objectives at its highest clock. Needs Beliefs::load.
[[nodiscard]] inline double most_load_per_s(const InstanceView& view, ClassId request_class) {
  return view.spec->beliefs.load->max_load_per_s(request_class, view.spec->gpu.clock_max);
}

/// The load it has, in requests per second of this class: what it was given takes as much of the instance as so many of
/// them would. `most`: most_load_per_s() of the class.
[[nodiscard]] inline double present_load_per_s(const InstanceView& view, double most, Instant now) {
  return view.load.at(now) * most;
}

}  // namespace wattle
