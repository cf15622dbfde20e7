#include "policy/routing/round_robin.h"

#include <algorithm>

namespace wattle::policy {

RouteDecision RoundRobin::route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                                RandomStream&) {
  auto turn = std::ranges::lower_bound(candidates, next_, {}, &InstanceView::id);
  if (turn == candidates.end()) turn = candidates.begin();
  const InstanceId chosen = (*turn)->id;
  next_ = InstanceId{chosen.value() + 1};
  return {chosen, "its turn"};
}

}  // namespace wattle::policy
