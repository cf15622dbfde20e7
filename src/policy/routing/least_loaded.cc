#include "policy/routing/least_loaded.h"

namespace wattle::policy {

RouteDecision LeastLoaded::route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                                 RandomStream&) {
  const InstanceView* best = candidates.front();
  for (const InstanceView* candidate : candidates) {
    if (less_loaded(*candidate, *best)) best = candidate;
  }
  return {best->id, "least loaded"};
}

}  // namespace wattle::policy
