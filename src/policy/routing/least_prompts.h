#pragma once
#include <vector>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// The candidate with the fewest prompt tokens left to compute (of requests without a first token) by the dispatcher's
/// own (never stale) counts; those that already have as many requests as their engine runs at once come last. Ties:
/// the fewest requests, then round-robin within each pool.
///
/// The fewest requests alone would send successive prompts to whichever instance has just finished some requests, and
/// their first tokens would wait for each other there.
class LeastPrompts final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  std::vector<InstanceId> next_;  ///< by pool, for round-robin on ties
};

}  // namespace wattle::policy
