#pragma once
#include "model/decision.h"
#include "policy/policy.h"

namespace wattle::policy {

/// Decides whether a request may enter. Asked on arrival, and again for held requests whenever a request leaves.
class AdmissionPolicy : public virtual Policy {
 public:
  virtual AdmissionDecision admit(const Request& request, const FleetSnapshot& fleet) = 0;
};

}  // namespace wattle::policy
