#pragma once
#include "policy/routing/routing.h"

namespace wattle::policy {

/// A uniformly random candidate, as in SGLang's small load balancer. Draws nothing if there is only one. O(1).
class Random final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
};

}  // namespace wattle::policy
