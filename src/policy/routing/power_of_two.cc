#include "policy/routing/power_of_two.h"

#include "policy/routing/least_loaded.h"

namespace wattle::policy {

RouteDecision PowerOfTwo::route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                                RandomStream& random) {
  if (candidates.size() == 1) return {candidates.front()->id, "only candidate"};
  const std::uint64_t first = random.below(candidates.size());
  std::uint64_t second = random.below(candidates.size() - 1);
  if (second >= first) ++second;
  const InstanceView& a = *candidates[first];
  const InstanceView& b = *candidates[second];
  return {less_loaded(b, a) ? b.id : a.id, "less loaded of two"};
}

}  // namespace wattle::policy
