#pragma once
#include "policy/routing/routing.h"

namespace wattle::policy {

/// The less loaded of two random candidates, on ties the first drawn (Mitzenmacher 2001). Constant cost at any fleet
/// size. Draws nothing if there is only one.
class PowerOfTwo final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
};

}  // namespace wattle::policy
