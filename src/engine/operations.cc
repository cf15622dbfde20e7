#include "engine/operations.h"

#include <algorithm>
#include <cmath>

namespace wattle::engine {
namespace {

constexpr double kTile = 128.0;
// How sharply one limit of a memory-bound kernel takes over from the other. Of 3, 4 and 8 what suits the H100 sweep's
// fitted rows best: time per token turns between 1080 and 1380 MHz there.
constexpr double kPathSharpness = 8.0;
constexpr double kActivationBytes = 2.0;  // activations stay 16-bit, whatever the weights are

double p_norm(double a, double b, double p) {
  const double high = std::max(a, b);
  if (high <= 0.0) return 0.0;
  return high * std::pow(1.0 + std::pow(std::min(a, b) / high, p), 1.0 / p);
}

}  // namespace

double padded_rows(double rows, double quantisation) {
  if (rows <= 1.0) return rows;
  if (rows <= 2.0) return 2.0;
  if (rows <= 4.0) return 4.0;
  if (rows <= kTile) return std::ceil(rows / 8.0) * 8.0;
  const double whole = std::ceil(rows / kTile) * kTile;
  return rows + quantisation * (whole - rows);
}

Operations::Operations(const GpuSpec& gpu, const LlmSpec& llm, std::int32_t tensor_parallel,
                       const HardwareProfile& profile, double clock_mhz)
    : gpu_(gpu), llm_(llm), profile_(profile), tp_(tensor_parallel), slowdown_(gpu.clock_max.value() / clock_mhz) {}

double Operations::memory_seconds(double bytes, double efficiency, double clock_share) const {
  const double at_top = bytes / (gpu_.memory_bandwidth_bytes_per_s * efficiency);
  // Every byte passes the memory, at its own clock, and L2 and its fabric, at the core's: the slower one decides.
  return at_top * p_norm(1.0, clock_share * slowdown_, kPathSharpness) / p_norm(1.0, clock_share, kPathSharpness);
}

double Operations::latency(double seconds) const {
  return seconds * (1.0 - profile_.latency_clock_share + profile_.latency_clock_share * slowdown_);
}

Work Operations::product_of(Dtype dtype, double rows, double columns, double inner, double count) const {
  const bool fp8 = dtype == Dtype::Fp8;
  const double flops_per_s = fp8 ? gpu_.fp8_flops_per_s * profile_.fp8_tensor_efficiency / slowdown_
                                 : gpu_.bf16_flops_per_s * profile_.tensor_efficiency / slowdown_;
  const double flop_weight = fp8 ? gpu_.bf16_flops_per_s / gpu_.fp8_flops_per_s : 1.0;  // energy in 16-bit operations
  // Below a tile, libraries choose smaller tiles, so the rows themselves count; a wave is one full tile on every SM.
  const double padded = std::max(8.0, padded_rows(rows, profile_.tile_quantisation));
  const double sms = gpu_.sm_count;
  const double waves = count * padded / kTile * std::ceil(columns / kTile) / sms;
  const double wave_seconds = 2.0 * kTile * kTile * inner * sms / flops_per_s;
  const double compute = wave_seconds * (waves + profile_.wave_offset * std::min(1.0, waves));
  const double bytes = count * (columns * inner * bytes_of(dtype) + rows * (columns + inner) * kActivationBytes);
  const double memory = memory_seconds(bytes, profile_.memory_efficiency, profile_.memory_clock_share);
  const double busy = p_norm(compute, memory, profile_.overlap_exponent);
  return {busy + latency(profile_.kernel_ramp_s + (fp8 ? profile_.fp8_ramp_s : 0.0)),
          2.0 * count * rows * columns * inner * flop_weight, bytes, busy};
}

Work Operations::all_reduce(double bytes) const {
  if (tp_ == 1) return {};
  const double on_link = 2.0 * (tp_ - 1) / tp_ * bytes / (gpu_.nvlink_bytes_per_s * profile_.allreduce_efficiency);
  return {latency(profile_.allreduce_latency_s) + on_link, 0.0, 2.0 * bytes};
}

Work Operations::dense(std::int64_t tokens) const {
  // A captured graph computes its padding in every kernel, not in the products alone.
  const double t = tokens <= static_cast<std::int64_t>(kTile) ? padded_rows(static_cast<double>(tokens), 1.0)
                                                              : static_cast<double>(tokens);
  const double hidden = llm_.hidden;
  const double heads = static_cast<double>(llm_.heads) / tp_;
  const double kv_heads = std::max(1.0, static_cast<double>(llm_.kv_heads) / tp_);
  const double ffn = static_cast<double>(llm_.ffn) / tp_;
  const double up_width = (llm_.gated_ffn ? 2.0 : 1.0) * ffn;

  Work layer = product_of(llm_.attention_dtype(), t, (heads + 2.0 * kv_heads) * llm_.head_dim, hidden, 1.0);
  layer += product_of(llm_.attention_dtype(), t, hidden, heads * llm_.head_dim, 1.0);
  if (llm_.experts > 1) {
    // Each token picks k of n experts; with even routing a step touches this many of them.
    const double n = llm_.experts;
    const double k = llm_.experts_per_token;
    const double touched = n * (1.0 - std::pow(1.0 - k / n, t));
    const double rows = t * k / touched;
    layer += product(rows, up_width, hidden, touched);
    layer += product(rows, hidden, ffn, touched);
  } else {
    layer += product(t, up_width, hidden);
    layer += product(t, hidden, ffn);
  }
  const double traffic = profile_.elementwise_passes * t * hidden * kActivationBytes;
  const double moving = memory_seconds(traffic, profile_.memory_efficiency, profile_.memory_clock_share);
  layer += {moving + latency(profile_.layer_overhead_s), 0.0, traffic, moving};
  layer += all_reduce(t * hidden * kActivationBytes) * 2.0;
  return layer * llm_.layers;
}

Work Operations::head(std::int64_t emitting) const {
  if (emitting == 0) return {};
  const double rows = static_cast<double>(emitting);
  // 8-bit checkpoints keep the head in 16 bits.
  Work work = product_of(Dtype::Bf16, rows, static_cast<double>(llm_.vocab) / tp_, llm_.hidden, 1.0);
  const double logits = rows * llm_.vocab * 4.0 * 2.0;  // sampling reads 32-bit logits twice
  const double moving = memory_seconds(logits, profile_.memory_efficiency, profile_.memory_clock_share);
  work += {moving, 0.0, logits, moving};
  return work;
}

Work Operations::sampling() const {
  const double seconds = latency(profile_.sampling_ns_per_logit * 1e-9 * llm_.vocab);
  return {seconds, 0.0, 0.0, seconds * profile_.sampling_activity};
}

Work Operations::attention_ramp() const { return Work{latency(profile_.attention_ramp_s), 0.0, 0.0} * llm_.layers; }

Work Operations::decode_attention_per_request() const {
  const double kv_heads = std::max(1.0, static_cast<double>(llm_.kv_heads) / tp_);
  return Work{profile_.decode_attention_head_s * kv_heads * slowdown_, 0.0, 0.0} * llm_.layers;
}

Work Operations::decode_attention_per_kv_token() const {
  const double kv_heads = std::max(1.0, static_cast<double>(llm_.kv_heads) / tp_);
  const double bytes = 2.0 * kv_heads * llm_.head_dim * bytes_of(llm_.kv_dtype);
  const double reading =
      memory_seconds(bytes, profile_.decode_attention_efficiency, profile_.decode_attention_clock_share);
  return Work{reading, 4.0 * llm_.heads / tp_ * llm_.head_dim, bytes, reading} * llm_.layers;
}

Work decode_attention(const Work& blocks, const Work& reading) {
  Work work = blocks + reading;
  work.seconds = std::sqrt(blocks.seconds * blocks.seconds + reading.seconds * reading.seconds);
  work.busy = std::min(work.busy, work.seconds);
  return work;
}

double Operations::decode_attention_tail(std::int64_t requests) const {
  const double kv_heads = std::max(1.0, static_cast<double>(llm_.kv_heads) / tp_);
  const double blocks = std::max<double>(1.0, static_cast<double>(requests)) * kv_heads;
  return 1.0 +
         std::min(profile_.decode_attention_tail_most, profile_.decode_attention_tail_waves * gpu_.sm_count / blocks);
}

Work Operations::prefill_attention_per_pair() const {
  const double flops = 4.0 * llm_.heads / tp_ * llm_.head_dim;
  const double rate = gpu_.bf16_flops_per_s * profile_.prefill_attention_efficiency / slowdown_;
  return Work{flops / rate, flops, 0.0, flops / rate} * llm_.layers;
}

Work Operations::prefill_attention_per_token() const {
  const double kv_heads = std::max(1.0, static_cast<double>(llm_.kv_heads) / tp_);
  const double bytes = (2.0 * llm_.heads / tp_ + 2.0 * kv_heads) * llm_.head_dim * kActivationBytes;
  const double moving =
      memory_seconds(bytes, profile_.prefill_attention_memory_efficiency, profile_.memory_clock_share);
  return Work{moving, 0.0, bytes, moving} * llm_.layers;
}

}  // namespace wattle::engine
