#pragma once
#include <span>

#include "base/random.h"
#include "model/decision.h"
#include "policy/policy.h"

namespace wattle::policy {

/// Picks the instance for one leg of a request among `candidates` (all accepting and of the right role, in
/// ascending order of id; never empty). Pure in its arguments and its own state. May decline with kNoInstance: a held
/// request then stays held, and one that has finished its prefill is refused.
class RoutingPolicy : public virtual Policy {
 public:
  virtual RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                              RandomStream& random) = 0;
  /// Number of tokens of Request::content that it reads, in addition to Request::session; 0: neither.
  [[nodiscard]] virtual std::int32_t reads_prefix() const { return 0; }
};

}  // namespace wattle::policy
