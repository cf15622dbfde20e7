#pragma once
#include <cstdint>

#include "policy/admission/admission.h"

namespace wattle::policy {

struct BoundedAdmissionOptions {
  std::int64_t max_in_flight_per_instance = 1024;  ///< times the accepting instances that take first legs
  std::int64_t max_held = 1024;
};

/// Bounds what is in flight (beyond: held at the gateway) and what is held (beyond: rejected), so that an overload
/// costs bounded memory and a quick, honest answer. With no accepting instance everything is held.
class BoundedAdmission final : public AdmissionPolicy {
 public:
  explicit BoundedAdmission(BoundedAdmissionOptions options) : options_(options) {}
  AdmissionDecision admit(const Request& request, const FleetSnapshot& fleet) override;
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  BoundedAdmissionOptions options_;
};

}  // namespace wattle::policy
