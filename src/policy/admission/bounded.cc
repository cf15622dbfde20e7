#include "policy/admission/bounded.h"

#include <algorithm>

namespace wattle::policy {

AdmissionDecision BoundedAdmission::admit(const Request&, const FleetSnapshot& fleet) {
  const auto takers = std::ranges::count_if(
      fleet.instances, [](const InstanceView& view) { return view.accepting && view.spec->role != Role::Decode; });
  // Divided rather than multiplied: a huge bound must not overflow.
  if (takers > 0 && fleet.in_flight_requests / takers < options_.max_in_flight_per_instance) {
    return {Admission::Admit, "below the bound in flight"};
  }
  if (fleet.held_requests >= options_.max_held) return {Admission::Reject, "queue full"};
  return {Admission::Hold, "at the bound in flight"};
}

}  // namespace wattle::policy
