#include "policy/frequency/idle_parking.h"

namespace wattle::policy {

ClockDecision IdleParking::choose(const InstanceView& view, Instant) {
  if (has_no_work(view)) return {parking_, "idle: parked", Hold::forever()};
  if (view.telemetry == Telemetry::Lost) return {busy_, "telemetry lost: busy clock", Hold::forever()};
  return {busy_, "work: busy clock", Hold::forever()};
}

}  // namespace wattle::policy
