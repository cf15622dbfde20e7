#pragma once
#include <cstdint>

#include "policy/policy.h"

namespace wattle::policy {

/// Order of held requests: smaller key first, arrival order between equals. A request's key is fixed when it is held
/// (all laxities fall at the same rate, so even least-laxity order is static).
class QueuePolicy : public virtual Policy {
 public:
  [[nodiscard]] virtual std::int64_t key(const Request& request, Instant now) = 0;

  /// Whether a held request may ever displace a running one; asked once. If so, its rank is compared with those of
  /// running requests, and if it is strictly smaller, it displaces the one with the largest rank. Ranks of running
  /// requests are fixed at dispatch, assuming that they continue at the predicted speed.
  [[nodiscard]] virtual bool preemptive() const { return false; }
  /// Whether it may displace one at present.
  [[nodiscard]] virtual bool preempts() const { return preemptive(); }
  [[nodiscard]] virtual std::int64_t waiting_rank(std::int64_t key, Instant now) const {
    (void)now;
    return key;
  }
  [[nodiscard]] virtual std::int64_t running_rank(std::int64_t key, Instant dispatched) const {
    (void)dispatched;
    return key;
  }
  /// Whether all others wait while the first in order cannot be dispatched, whatever their pool. Asked once.
  [[nodiscard]] virtual bool strict() const { return false; }
  /// The key of a request that was displaced after `produced` tokens.
  [[nodiscard]] virtual std::int64_t key_again(const Request& request, std::int32_t produced, Instant now) {
    (void)produced;
    return key(request, now);
  }
};

}  // namespace wattle::policy
