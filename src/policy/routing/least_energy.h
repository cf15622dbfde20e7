#pragma once
// DynamoLLM's routing (section IV-D): to the instance to which the request adds the least energy, among those whose
// objectives leave enough throughput.
#include "policy/routing/routing.h"

namespace wattle::policy {

/// True if the instance, with this request, would have more load than it carries within its objectives, including
/// everything that waits there (section IV-D predicts the response time, too). By Beliefs::load; false without it, and
/// for an instance without requests, so that some instance takes a request.
[[nodiscard]] bool overfull(const InstanceView& view, const Request& request, Instant now);

/// Energy that a request adds, to compare instances with the same kind of beliefs. By Beliefs::load at the instance's
/// present load and clock; if that clock does not carry the load within its objectives, with or without the request, at
/// the lowest clock that does. Otherwise by Beliefs::power and latency at its present batch, or 0.
[[nodiscard]] double added_energy(const InstanceView& view, const Request& request, Instant now);

/// If every candidate would be overfull: the least overfull. Ties: the fewest requests, then the lowest id.
class LeastEnergy final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
};

}  // namespace wattle::policy
