#pragma once
#include "policy/queueing/queueing.h"

namespace wattle::policy {

struct FcfsOptions {
  bool strict = false;  ///< one queue for all pools: a request that waits for a full pool blocks those behind it
};

/// First come, first served: all keys are equal, so arrival order decides.
class Fcfs final : public QueuePolicy {
 public:
  explicit Fcfs(FcfsOptions options = {}) : options_(options) {}
  [[nodiscard]] std::int64_t key(const Request&, Instant) override { return 0; }
  [[nodiscard]] bool strict() const override { return options_.strict; }

 private:
  FcfsOptions options_;
};

}  // namespace wattle::policy
