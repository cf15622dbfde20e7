#pragma once
#include <vector>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// Each candidate in turn, by id, in each pool by itself. Instances that come and go keep their place in the turn.
class RoundRobin final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  std::vector<InstanceId> next_;  ///< by pool
};

}  // namespace wattle::policy
