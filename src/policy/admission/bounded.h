#pragma once
#include <cstdint>

#include "policy/admission/admission.h"

namespace wattle::policy {

struct BoundedAdmissionOptions {
  std::int64_t max_in_flight_per_instance = 1024;  ///< multiplied by FleetSnapshot::takers
  std::int64_t max_held = 1024;
};

/// Bounds requests in flight (beyond: held at the gateway) and held requests (beyond: rejected), so that an overload
/// costs bounded memory and gets a quick answer. An overloaded pool holds only the requests that may go nowhere else.
/// Without an accepting instance, requests are held.
class BoundedAdmission final : public AdmissionPolicy {
 public:
  explicit BoundedAdmission(BoundedAdmissionOptions options) : options_(options) {}
  AdmissionDecision admit(const Request& request, const FleetSnapshot& fleet) override;
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  BoundedAdmissionOptions options_;
};

}  // namespace wattle::policy
