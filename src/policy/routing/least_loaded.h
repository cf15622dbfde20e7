#pragma once
#include "policy/routing/routing.h"

namespace wattle::policy {

/// Is a less loaded than b? By assigned requests, then their prompt tokens.
[[nodiscard]] inline bool less_loaded(const InstanceView& a, const InstanceView& b) {
  if (a.assigned_requests != b.assigned_requests) return a.assigned_requests < b.assigned_requests;
  return a.assigned_prompt_tokens < b.assigned_prompt_tokens;
}

/// The candidate with the fewest requests by the dispatcher's own (never stale) books, this one among them; of
/// instances with a load profile for what they carry of its class, so that small ones beside large ones get their
/// share. Between equals as less_loaded(), then the lowest id.
class LeastLoaded final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
};

}  // namespace wattle::policy
