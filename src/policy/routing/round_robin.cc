#include "policy/routing/round_robin.h"

#include <algorithm>

namespace wattle::policy {

RouteDecision RoundRobin::route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                                RandomStream&) {
  const auto pool = static_cast<std::size_t>(request.pool.value());
  if (pool >= next_.size()) next_.resize(pool + 1);
  auto turn = std::ranges::lower_bound(candidates, next_[pool], {}, &InstanceView::id);
  if (turn == candidates.end()) turn = candidates.begin();
  const InstanceId chosen = (*turn)->id;
  next_[pool] = InstanceId{chosen.value() + 1};
  return {chosen, "its turn"};
}

}  // namespace wattle::policy
