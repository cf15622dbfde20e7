#pragma once
#include "policy/queueing/queueing.h"

namespace wattle::policy {

struct FcfsOptions {
  bool strict = false;  ///< one line for all pools: who waits for a full one holds up those behind
};

/// First come, first served: all keys equal, so that arrival order decides.
class Fcfs final : public QueuePolicy {
 public:
  explicit Fcfs(FcfsOptions options = {}) : options_(options) {}
  [[nodiscard]] std::int64_t key(const Request&, Instant) override { return 0; }
  [[nodiscard]] bool strict() const override { return options_.strict; }

 private:
  FcfsOptions options_;
};

}  // namespace wattle::policy
