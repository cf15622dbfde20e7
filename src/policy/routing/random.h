#pragma once
#include "policy/routing/routing.h"

namespace wattle::policy {

/// Any candidate, each as likely, whatever it holds: what SGLang's small load balancer does. Draws nothing when there
/// is no choice. O(1).
class Random final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
};

}  // namespace wattle::policy
