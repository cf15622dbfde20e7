#include "policy/routing/random.h"

namespace wattle::policy {

RouteDecision Random::route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                            RandomStream& random) {
  if (candidates.size() == 1) return {candidates.front()->id, "only candidate"};
  return {candidates[random.below(candidates.size())]->id, "drawn at random"};
}

}  // namespace wattle::policy
