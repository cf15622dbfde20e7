#pragma once
#include "policy/queueing/queueing.h"

namespace wattle::policy {

/// First come, first served: all keys equal, so that arrival order decides.
class Fcfs final : public QueuePolicy {
 public:
  [[nodiscard]] std::int64_t key(const Request&, Instant) override { return 0; }
};

}  // namespace wattle::policy
