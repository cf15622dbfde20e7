#pragma once
#include <span>

#include "base/random.h"
#include "model/decision.h"
#include "policy/policy.h"

namespace wattle::policy {

/// Picks the instance for one leg of a request among `candidates` (all accepting and of the right role, in
/// ascending order of id; never empty). Total and pure in its arguments and own state. Answering kNoInstance declines:
/// a held request stays held, one that has finished its prefill is refused.
class RoutingPolicy : public virtual Policy {
 public:
  virtual RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                              RandomStream& random) = 0;
  /// It looks at Request::session, and at so many tokens of Request::content; 0: at neither.
  [[nodiscard]] virtual std::int32_t reads_prefix() const { return 0; }
};

}  // namespace wattle::policy
