#pragma once
#include <memory>
#include <span>
#include <utility>

#include "model/beliefs.h"

namespace wattle::predict {

/// Separate models for decodes and prompts (throttLL'eM's M does not cover prompts). A step with both takes the sum.
class PhaseLatency final : public LatencyModel {
 public:
  /// Both not null.
  PhaseLatency(std::shared_ptr<const LatencyModel> decode, std::shared_ptr<const LatencyModel> prefill)
      : decode_(std::move(decode)), prefill_(std::move(prefill)) {}

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const Span decode = shape.decode_requests > 0 ? decode_->step_time(decodes_of(shape), clock) : Span();
    return shape.prefill_tokens > 0 ? decode + prefill_->step_time(prompts_of(shape), clock) : decode;
  }
  void decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens, MegaHertz clock,
                    std::span<Span> out) const override {
    decode_->decode_times(requests, kv_tokens, clock, out);
  }
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override {
    const Span prompts = shape.prefill_tokens > 0 ? prefill_->step_time(prompts_of(shape), clock) : Span();
    return decode_->kv_tokens_within(decodes_of(shape), clock, budget - prompts);
  }

 private:
  static StepShape decodes_of(StepShape shape) {
    shape.prefill_requests = 0;
    shape.prefill_tokens = shape.prefill_context_tokens = 0;
    return shape;
  }
  static StepShape prompts_of(StepShape shape) {
    shape.decode_requests = 0;
    shape.decode_kv_tokens = 0;
    return shape;
  }

  std::shared_ptr<const LatencyModel> decode_;
  std::shared_ptr<const LatencyModel> prefill_;
};

}  // namespace wattle::predict
