#pragma once
#include <tuple>
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
  /// The same with `fullness(view)`, increasing with assigned requests, in the place of their number.
  template <typename Fullness>
  RouteDecision route_by(const Request& request, std::span<const InstanceView* const> candidates, Fullness fullness);
  [[nodiscard]] bool reads_steps() const override { return false; }

 private:
  std::vector<InstanceId> next_;  ///< by pool, for round-robin on ties
};

template <typename Fullness>
RouteDecision LeastPrompts::route_by(const Request& request, std::span<const InstanceView* const> candidates,
                                     Fullness fullness) {
  const auto pool = static_cast<std::size_t>(request.pool.value());
  if (pool >= next_.size()) next_.resize(pool + 1);
  const auto order = [&](const InstanceView& view) {
    return std::tuple(view.assigned_requests >= view.spec->max_requests, view.unanswered_prompt_tokens, fullness(view));
  };
  const InstanceView* best = nullptr;
  for (const InstanceView* candidate : candidates) {
    const auto its = order(*candidate);
    const bool fewer = best == nullptr || its < order(*best);
    const bool its_turn = !fewer && its == order(*best) && best->id < next_[pool] && candidate->id >= next_[pool];
    if (fewer || its_turn) best = candidate;
  }
  next_[pool] = InstanceId{best->id.value() + 1};
  return {best->id, "the fewest prompt tokens to compute"};
}

}  // namespace wattle::policy
