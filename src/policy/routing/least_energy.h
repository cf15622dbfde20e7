#pragma once
// DynamoLLM's choice of an instance (section IV-D): the one to which a request adds the least energy, within the
// throughput that its objectives leave each instance.
#include "policy/routing/routing.h"

namespace wattle::policy {

/// Would it, with this request, have more than it carries within its objectives, what waits there counted however long
/// ago it came (its response time is predicted, too, section IV-D)? By Beliefs::load; false without one,
/// and for an instance that has nothing: somebody must take a request.
[[nodiscard]] bool overfull(const InstanceView& view, const Request& request, Instant now);

/// What a request adds to what an instance draws, to compare instances alike in what is believed of them: by
/// Beliefs::load at the load it has and the clock it is set to, or where that does not carry the load within its
/// objectives, before or with the request, at the lowest that does; else by Beliefs::power and latency at the batch it
/// runs, else 0.
[[nodiscard]] double added_energy(const InstanceView& view, const Request& request, Instant now);

/// Where every candidate would be overfull, the one that is least so. Between equals the one with fewer requests, then
/// the lowest id.
class LeastEnergy final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
};

}  // namespace wattle::policy
