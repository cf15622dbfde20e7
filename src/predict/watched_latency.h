#pragma once
// A belief that was measured in a range, and counts the questions it was asked from outside it.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "predict/linear_latency.h"

namespace wattle::predict {

/// Answers as the LinearLatency inside does. Thread-safe; two relaxed additions a question.
class WatchedLatency final : public LatencyModel {
 public:
  explicit WatchedLatency(LinearLatency inside) : inside_(std::move(inside)) {}

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    asked_.fetch_add(1, std::memory_order_relaxed);
    if (inside_.extrapolates(shape, clock)) outside_.fetch_add(1, std::memory_order_relaxed);
    return inside_.step_time(shape, clock);
  }
  /// Promises nothing beyond the measured KV tokens to a shape within them: a caller that lets a decision stand that
  /// long has to ask again, and is counted.
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override {
    const std::int64_t most = inside_.kv_tokens_within(shape, clock, budget);
    const std::int64_t measured = inside_.coefficients().decode_kv_tokens_max;
    return shape.decode_kv_tokens <= measured ? std::min(most, measured) : most;
  }

  [[nodiscard]] const LinearLatency& inside() const { return inside_; }
  [[nodiscard]] std::int64_t asked() const { return asked_.load(std::memory_order_relaxed); }
  /// Of these, outside the measured clocks, batch sizes, KV tokens or prompt tokens.
  [[nodiscard]] std::int64_t outside() const { return outside_.load(std::memory_order_relaxed); }

 private:
  LinearLatency inside_;
  mutable std::atomic<std::int64_t> asked_{0};
  mutable std::atomic<std::int64_t> outside_{0};
};

}  // namespace wattle::predict
