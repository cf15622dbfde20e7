#include "policy/frequency/static_clock.h"

namespace wattle::policy {

ClockDecision StaticClock::choose(const InstanceView& view, Instant) {
  if (parking_ && has_no_work(view)) return {*parking_, "idle: parked", Hold::forever()};
  return {clock_, "fixed clock", Hold::forever()};
}

}  // namespace wattle::policy
