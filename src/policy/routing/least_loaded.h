#pragma once
#include "policy/routing/routing.h"

namespace wattle::policy {

/// Is a less loaded than b? By assigned requests, then their prompt tokens.
[[nodiscard]] inline bool less_loaded(const InstanceView& a, const InstanceView& b) {
  if (a.assigned_requests != b.assigned_requests) return a.assigned_requests < b.assigned_requests;
  return a.assigned_prompt_tokens < b.assigned_prompt_tokens;
}

/// The candidate with the fewest requests, including this one, by the dispatcher's own (never stale) counts. Instances
/// with a load profile are compared by requests relative to what they carry of the class, so that small and large ones
/// get their shares. Ties: by less_loaded(), then the lowest id.
class LeastLoaded final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
};

}  // namespace wattle::policy
