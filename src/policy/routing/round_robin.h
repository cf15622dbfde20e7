#pragma once
#include "policy/routing/routing.h"

namespace wattle::policy {

/// Each candidate in turn, by id. Instances that come and go keep their place in the turn.
class RoundRobin final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  InstanceId next_{0};
};

}  // namespace wattle::policy
