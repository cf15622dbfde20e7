#include "policy/routing/least_prompts.h"

namespace wattle::policy {

RouteDecision LeastPrompts::route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                                  RandomStream&) {
  return route_by(request, candidates, [](const InstanceView& view) { return view.assigned_requests; });
}

}  // namespace wattle::policy
