#pragma once
#include <vector>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// Round-robin by id, within each pool. Instances that join or leave do not change the order of the others.
class RoundRobin final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  std::vector<InstanceId> next_;  ///< by pool
};

}  // namespace wattle::policy
