#include "policy/routing/least_prompts.h"

#include <tuple>

namespace wattle::policy {

RouteDecision LeastPrompts::route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                                  RandomStream&) {
  const auto pool = static_cast<std::size_t>(request.pool.value());
  if (pool >= next_.size()) next_.resize(pool + 1);
  const auto order = [](const InstanceView& view) {
    return std::tuple(view.assigned_requests >= view.spec->max_requests, view.unanswered_prompt_tokens,
                      view.assigned_requests);
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
