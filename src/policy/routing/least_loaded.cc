#include "policy/routing/least_loaded.h"

#include <algorithm>
#include <limits>

#include "model/believed_load.h"

namespace wattle::policy {

RouteDecision LeastLoaded::route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                                 RandomStream&) {
  const InstanceView* best = nullptr;
  double least = 0.0;
  for (const InstanceView* candidate : candidates) {
    const bool profiled = candidate->spec->beliefs.load != nullptr;
    const double carries = profiled ? most_load_per_s(*candidate, request.request_class) : 1.0;
    const double load = (candidate->assigned_requests + 1) / std::max(carries, std::numeric_limits<double>::min());
    if (best != nullptr && (load > least || (load == least && !less_loaded(*candidate, *best)))) continue;
    best = candidate;
    least = load;
  }
  return {best->id, "least loaded"};
}

}  // namespace wattle::policy
