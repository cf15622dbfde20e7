#pragma once
#include <compare>
#include <cstdint>

#include "policy/policy.h"

namespace wattle::policy {

/// Order of held requests: smaller key first, arrival order between equals. Keys are fixed as a request is held
/// (laxities all fall at the same rate, so even least-laxity order is static).
class QueuePolicy : public virtual Policy {
 public:
  [[nodiscard]] virtual std::int64_t key(const Request& request, Instant now) = 0;

  /// May a held request ever take a running one's place? Asked once. Then its rank is compared with those of running
  /// ones: strictly smaller, it displaces the one of the largest. Ranks of running requests are fixed as they are
  /// dispatched, in the belief that they go on at the speed predicted.
  [[nodiscard]] virtual bool preemptive() const { return false; }
  /// And now?
  [[nodiscard]] virtual bool preempts() const { return preemptive(); }
  [[nodiscard]] virtual std::int64_t waiting_rank(std::int64_t key, Instant now) const {
    (void)now;
    return key;
  }
  [[nodiscard]] virtual std::int64_t running_rank(std::int64_t key, Instant dispatched) const {
    (void)dispatched;
    return key;
  }
  /// Where the first in order cannot be sent out yet, do those behind it wait, whichever pool they are for? Asked once.
  [[nodiscard]] virtual bool strict() const { return false; }
  /// The key of a request that was displaced after so many tokens.
  [[nodiscard]] virtual std::int64_t key_again(const Request& request, std::int32_t produced, Instant now) {
    (void)produced;
    return key(request, now);
  }
};

}  // namespace wattle::policy
