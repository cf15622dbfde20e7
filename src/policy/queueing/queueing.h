#pragma once
#include <compare>
#include <cstdint>

#include "policy/policy.h"

namespace wattle::policy {

/// Order of held requests: smaller key first, arrival order between equals. Keys are fixed on arrival (laxities all
/// fall at the same rate, so even least-laxity order is static).
class QueuePolicy : public virtual Policy {
 public:
  [[nodiscard]] virtual std::int64_t key(const Request& request, Instant now) = 0;
};

}  // namespace wattle::policy
