#pragma once
#include "policy/admission/admission.h"

namespace wattle::policy {

/// Admits everything; the engines' own queues absorb it.
class AlwaysAdmit final : public AdmissionPolicy {
 public:
  AdmissionDecision admit(const Request&, const FleetSnapshot&) override { return {Admission::Admit, "always"}; }
  [[nodiscard]] bool reads_steps() const override { return false; }
};

}  // namespace wattle::policy
