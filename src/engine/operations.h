#pragma once
// The operations of a transformer step, each as time and work on one GPU at one clock. Internal to engine/.
#include <cstdint>

#include "engine/expert_use.h"
#include "engine/hardware_profile.h"
#include "model/hardware.h"

namespace wattle::engine {

/// Time and the work done in it, per GPU. Work costs energy: tensor operations and memory traffic.
struct Work {
  double seconds = 0.0;
  double flops = 0.0;  ///< in 16-bit equivalents
  double bytes = 0.0;
  double busy = 0.0;  ///< s with tensor or memory units at work: no ramps, small kernels, waiting for peers

  constexpr Work& operator+=(const Work& o) {
    seconds += o.seconds;
    flops += o.flops;
    bytes += o.bytes;
    busy += o.busy;
    return *this;
  }
  [[nodiscard]] constexpr Work operator+(const Work& o) const { return Work(*this) += o; }
  [[nodiscard]] constexpr Work operator*(double k) const { return {seconds * k, flops * k, bytes * k, busy * k}; }
};

/// Cost of operations for one GPU's share of one LLM at one clock.
class Operations {
 public:
  /// `expert_row_block`: as in EngineOptions.
  Operations(const GpuSpec& gpu, const LlmSpec& llm, const Parallelism& parallel, const HardwareProfile& profile,
             double clock_mhz, std::int32_t expert_row_block = 1);

  /// All parts of a step that depend only on the number of tokens: projections, FFN or experts, small kernels,
  /// all-reduce; all layers. With several data groups: for one group's tokens, without routed().
  [[nodiscard]] Work dense(std::int64_t tokens) const;
  /// Routed experts' products of all data groups' tokens together; all layers.
  [[nodiscard]] Work routed(std::int64_t tokens) const;
  /// LM head for the requests that emit a token.
  [[nodiscard]] Work head(std::int64_t emitting) const;
  /// Choosing one request's token from the vocabulary; every GPU of a tensor-parallel group does it.
  [[nodiscard]] Work sampling() const;
  /// Decode attention, all layers: decode_attention() of per_request() x requests and of per_kv_token() x KV tokens.
  [[nodiscard]] Work decode_attention_per_request() const;
  [[nodiscard]] Work decode_attention_per_kv_token() const;
  /// Factor on the time per KV token (not on the work) at this many requests: with few thread blocks the last wave
  /// leaves SMs idle. Falls towards 1 as the batch grows.
  [[nodiscard]] double decode_attention_tail(std::int64_t requests) const;
  /// Prompt attention, all layers: per unit of StepShape::prefill_context_tokens and per prompt token.
  [[nodiscard]] Work prefill_attention_per_pair() const;
  [[nodiscard]] Work prefill_attention_per_token() const;
  /// Starting the attention kernels of all layers, once per step of either kind.
  [[nodiscard]] Work attention_ramp() const;

  /// `count` equal products of (rows x inner) and (inner x columns) as one kernel.
  [[nodiscard]] Work product(double rows, double columns, double inner, double count = 1.0) const {
    return product_of(llm_.dtype, rows, columns, inner, count);
  }
  /// One all-reduce over the tensor-parallel group.
  [[nodiscard]] Work all_reduce(double bytes) const;
  /// Transfer from one pipeline stage to the next.
  [[nodiscard]] Work stage_send(std::int64_t tokens) const;

 private:
  [[nodiscard]] Work layer(double tokens, bool of_experts) const;
  /// `to` plus the products of a feed-forward network of this width, each by `product(columns, inner)`.
  [[nodiscard]] Work with_ffn(Work to, double width, const auto& product) const {
    to += product((llm_.gated_ffn ? 2.0 : 1.0) * width, llm_.hidden);
    to += product(llm_.hidden, width);
    return to;
  }
  [[nodiscard]] Work attention_products(double tokens) const;
  /// `to` plus the routed experts' products of this many tokens, all data groups together.
  [[nodiscard]] Work with_experts(double tokens, const Work& to) const;
  /// Sending tokens to the GPUs that hold their experts, and the results back, between data groups.
  [[nodiscard]] Work exchange(double tokens) const;
  /// KV heads on one GPU; latent attention has one latent for all.
  [[nodiscard]] double kv_heads() const;
  [[nodiscard]] Work product_of(Dtype dtype, double rows, double columns, double inner, double count) const;
  /// A product of routed experts.
  [[nodiscard]] Work grouped_product(double rows, double columns, double inner, double count) const;
  /// `top_flops_per_s`: the rate of large products at clock_max.
  [[nodiscard]] Work product_at(double top_flops_per_s, Dtype dtype, double rows, double columns, double inner,
                                double count) const;
  [[nodiscard]] double latency(double seconds) const;
  /// Time to send bytes from one GPU to others; large messages (NCCL) come closer to the link's rate.
  [[nodiscard]] double link_seconds(double bytes) const;
  [[nodiscard]] double memory_seconds(double bytes, double efficiency, double clock_share) const;

  const GpuSpec& gpu_;
  const LlmSpec& llm_;
  const HardwareProfile& profile_;
  Parallelism parallel_;
  std::int32_t tp_;
  ExpertUse expert_use_;
  double slowdown_;  ///< clock_max / clock
  std::int32_t expert_row_block_;
};

/// Decode attention of a batch. Thread blocks start and end while others read KV, so the longer of `blocks` and
/// `reading` dominates: their 2-norm, since kernels of 32 heads take as long at 64 tokens of KV as at 8.
[[nodiscard]] Work decode_attention(const Work& blocks, const Work& reading);

/// Rows that a matrix product computes: CUDA graphs are captured for 1, 2, 4, 8, 16, 24 ... 128 rows; beyond, tiles
/// have 128 rows and a share `quantisation` of the padding costs time.
[[nodiscard]] double padded_rows(double rows, double quantisation);

}  // namespace wattle::engine
