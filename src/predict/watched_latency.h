#pragma once
// A latency model with a measured range, which counts predictions outside it.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "predict/linear_latency.h"

namespace wattle::predict {

/// Predicts like the LinearLatency inside. Thread-safe; two relaxed increments per call.
class WatchedLatency final : public LatencyModel {
 public:
  explicit WatchedLatency(LinearLatency inside) : inside_(std::move(inside)) {}

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    asked_.fetch_add(1, std::memory_order_relaxed);
    if (inside_.extrapolates(shape, clock)) outside_.fetch_add(1, std::memory_order_relaxed);
    return inside_.step_time(shape, clock);
  }
  /// For a shape within the measured range, at most the measured KV tokens: a caller that keeps a decision that long
  /// has to ask again, and is counted.
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override {
    const std::int64_t most = inside_.kv_tokens_within(shape, clock, budget);
    const std::int64_t measured = inside_.coefficients().decode_kv_tokens_max;
    return shape.decode_kv_tokens <= measured ? std::min(most, measured) : most;
  }

  [[nodiscard]] const LinearLatency& inside() const { return inside_; }
  [[nodiscard]] std::int64_t asked() const { return asked_.load(std::memory_order_relaxed); }
  /// Number of these outside the measured clocks, batch sizes, KV tokens or prompt tokens.
  [[nodiscard]] std::int64_t outside() const { return outside_.load(std::memory_order_relaxed); }

 private:
  LinearLatency inside_;
  mutable std::atomic<std::int64_t> asked_{0};
  mutable std::atomic<std::int64_t> outside_{0};
};

}  // namespace wattle::predict
