#pragma once
#include <vector>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// The candidate with the fewest prompt tokens still to be computed, by the dispatcher's own (never stale) books:
/// of requests whose first token has not come. Between equals the fewest requests, then in turn, of each pool by
/// itself.
///
/// The fewest requests alone would send what comes to whichever instance has just answered some, one prompt after the
/// other, and first tokens would wait there for each other.
class LeastPrompts final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  std::vector<InstanceId> next_;  ///< by pool: whose turn it is between equals
};

}  // namespace wattle::policy
