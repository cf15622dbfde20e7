#include "policy/admission/bounded.h"

namespace wattle::policy {

AdmissionDecision BoundedAdmission::admit(const Request&, const FleetSnapshot& fleet) {
  // Divided rather than multiplied: a huge bound must not overflow.
  if (fleet.takers > 0 && fleet.in_flight_requests / fleet.takers < options_.max_in_flight_per_instance) {
    return {Admission::Admit, "below the bound in flight"};
  }
  if (fleet.held_requests >= options_.max_held) return {Admission::Reject, "queue full"};
  return {Admission::Hold, "at the bound in flight"};
}

}  // namespace wattle::policy
