#include "engine/operations.h"

#include <algorithm>
#include <cmath>

namespace wattle::engine {
namespace {

constexpr double kTile = 128.0;
// How sharply one limit of a memory-bound kernel takes over from the other. Of 3, 4 and 8 what suits the H100 sweep's
// fitted rows best: time per token turns between 1080 and 1380 MHz there.
constexpr double kPathSharpness = 8.0;
// Messages up to this size (bytes on the link) go through the frameworks' own kernels, at one share of its rate; larger
// ones through NCCL, which comes closer to the full rate.
constexpr double kOwnKernels = 16.0 * 1024.0 * 1024.0;
constexpr double kActivationBytes = 2.0;  // activations stay 16-bit, whatever the weights are

constexpr double kWidened = 0.20;        // grouped_share() of narrow weights that are widened to 16 bits
constexpr double kExpertPasses = 4.8;    // every routed token gathered, written, read and summed, over its 16-bit size
constexpr double kExpertRamp = 10.0e-6;  // sorting tokens by expert, beyond what starting the products takes

double p_norm(double a, double b, double p) {
  const double high = std::max(a, b);
  if (high <= 0.0) return 0.0;
  return high * std::pow(1.0 + std::pow(std::min(a, b) / high, p), 1.0 / p);
}

/// Rate of the tensor units that take 8- or 4-bit operands; 0: the 16-bit ones do (weights alone are narrow, as an
/// A100's of 8 bits are). MXFP4's activations keep 8 bits.
double narrow_rate(const GpuSpec& gpu, Dtype weights) {
  switch (weights) {
    case Dtype::Fp8:
      return gpu.fp8_flops_per_s;
    case Dtype::Nvfp4:
      return gpu.fp4_flops_per_s;
    case Dtype::Mxfp4:
      return gpu.fp4_flops_per_s > 0.0 ? gpu.fp8_flops_per_s : 0.0;
    case Dtype::Bf16:
    case Dtype::Int4:
      break;
  }
  return 0.0;
}

// Routed experts' products, all of a layer in one grouped kernel: share of the peak 16-bit FLOP/s that large ones
// reach, by the weights' format. Fitted with kExpertPasses and what starts such a layer (22 us, of which products have
// the rest) on 16,000 readings of aiconfigurator's MoE kernel tables (commit 095f58a; vLLM, SGLang and TensorRT-LLM on
// H100, H200 and B200, 20 shapes, 1 to 16,384 tokens, tensor parallelism 1 to 8, tokens among experts by a power law),
// within 23 % in the mean, 24 % for a shape left out. 8-bit grouped kernels are no faster than 16-bit ones; 4-bit
// weights without units for them are widened in the kernel, which costs more than it saves.
double grouped_share(const GpuSpec& gpu, Dtype weights) {
  const bool narrow = gpu.fp4_flops_per_s > 0.0;
  switch (weights) {
    case Dtype::Nvfp4:
      return narrow ? 2.75 : kWidened;
    case Dtype::Mxfp4:
      return narrow ? 1.1 : kWidened;
    case Dtype::Int4:
      return kWidened;
    case Dtype::Fp8:
      if (gpu.fp8_flops_per_s <= 0.0) return kWidened;
      break;
    case Dtype::Bf16:
      break;
  }
  return 0.53;
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

Operations::Operations(const GpuSpec& gpu, const LlmSpec& llm, const Parallelism& parallel,
                       const HardwareProfile& profile, double clock_mhz, std::int32_t expert_row_block)
    : gpu_(gpu),
      llm_(llm),
      profile_(profile),
      parallel_(parallel),
      tp_(parallel.tensor),
      expert_use_(llm, parallel.expert),
      slowdown_(gpu.clock_max.value() / clock_mhz),
      expert_row_block_(expert_row_block) {}

double Operations::kv_heads() const { return std::max(1.0, static_cast<double>(llm_.kv_heads) / tp_); }

double Operations::memory_seconds(double bytes, double efficiency, double clock_share) const {
  const double at_top = bytes / (gpu_.memory_bandwidth_bytes_per_s * efficiency);
  // Every byte passes the memory, at its own clock, and L2 and its fabric, at the core's: the slower one decides.
  return at_top * p_norm(1.0, clock_share * slowdown_, kPathSharpness) / p_norm(1.0, clock_share, kPathSharpness);
}

double Operations::latency(double seconds) const {
  return seconds * (1.0 - profile_.latency_clock_share + profile_.latency_clock_share * slowdown_);
}

Work Operations::product_of(Dtype dtype, double rows, double columns, double inner, double count) const {
  const double narrow_flops_per_s = narrow_rate(gpu_, dtype);
  const double flops_per_s = narrow_flops_per_s > 0.0 ? narrow_flops_per_s * profile_.fp8_tensor_efficiency
                                                      : gpu_.bf16_flops_per_s * profile_.tensor_efficiency;
  return product_at(flops_per_s, dtype, rows, columns, inner, count);
}

Work Operations::grouped_product(double rows, double columns, double inner, double count) const {
  const Dtype dtype = llm_.expert_dtype();
  return product_at(gpu_.bf16_flops_per_s * grouped_share(gpu_, dtype), dtype, rows, columns, inner, count);
}

Work Operations::product_at(double top_flops_per_s, Dtype dtype, double rows, double columns, double inner,
                            double count) const {
  const double flops_per_s = top_flops_per_s / slowdown_;
  const double narrow_flops_per_s = narrow_rate(gpu_, dtype);
  const bool narrow = narrow_flops_per_s > 0.0;
  const double flop_weight = narrow ? gpu_.bf16_flops_per_s / narrow_flops_per_s : 1.0;  // energy in 16-bit operations
  // Below a tile, libraries choose smaller tiles, so the rows themselves count; a wave is one full tile on every SM.
  const double padded = std::max(8.0, padded_rows(rows, profile_.tile_quantisation));
  const double sms = gpu_.sm_count;
  const double waves = count * padded / kTile * std::ceil(columns / kTile) / sms;
  const double wave_seconds = 2.0 * kTile * kTile * inner * sms / flops_per_s;
  const double compute = wave_seconds * (waves + profile_.wave_offset * std::min(1.0, waves));
  const double bytes = count * (columns * inner * bytes_of(dtype) + rows * (columns + inner) * kActivationBytes);
  const double memory = memory_seconds(bytes, profile_.memory_efficiency, profile_.memory_clock_share);
  const double busy = p_norm(compute, memory, profile_.overlap_exponent);
  return {busy + latency(profile_.kernel_ramp_s + (narrow ? profile_.fp8_ramp_s : 0.0)),
          2.0 * count * rows * columns * inner * flop_weight, bytes, busy};
}

double Operations::link_seconds(double bytes) const {
  if (bytes <= 0.0) return 0.0;
  const double share =
      profile_.allreduce_efficiency * std::pow(std::max(1.0, bytes / kOwnKernels), profile_.allreduce_size_exponent);
  return bytes / (gpu_.nvlink_bytes_per_s * std::min(1.0, share));
}

Work Operations::all_reduce(double bytes) const {
  if (tp_ == 1) return {};
  // Small messages in one pass: every GPU reads everything from its peers. Larger ones in two passes: each GPU sums one
  // share and the others read the sums, so all but one share is transferred twice; or a switch that sums reads each GPU
  // once and returns the sums. Frameworks switch to two passes about where they take less time.
  const double peers = tp_ - 1;
  const double twice = 2.0 * peers / tp_;
  const double sent = bytes * (gpu_.switch_reduces ? std::min(twice, 1.0 + 1.0 / tp_) : twice);
  const double one_pass = peers * bytes / (gpu_.nvlink_bytes_per_s * profile_.allreduce_efficiency);
  const double two_passes = latency(profile_.allreduce_pass_s) + link_seconds(sent);
  return {latency(profile_.allreduce_latency_s) + std::min(one_pass, two_passes), 0.0, 2.0 * bytes};
}

Work Operations::stage_send(std::int64_t tokens) const {
  const double bytes = static_cast<double>(tokens) * llm_.hidden * kActivationBytes / tp_;
  return {latency(profile_.allreduce_latency_s) + link_seconds(bytes), 0.0, 2.0 * bytes};
}

Work Operations::exchange(double tokens) const {
  const double groups = parallel_.expert;
  const double here = 1.0 / groups;
  // A token is sent once to each group that has one of its experts; in 8 bits unless the experts need wider inputs.
  const double visited = groups * (1.0 - std::pow(1.0 - here, llm_.experts_per_token)) * (1.0 - here);
  const double there = bytes_of(llm_.expert_dtype()) <= 1.0 ? 1.0 : kActivationBytes;
  const double bytes = tokens * visited * llm_.hidden * (there + kActivationBytes) / tp_;
  return {2.0 * latency(profile_.allreduce_latency_s) + link_seconds(bytes), 0.0, 2.0 * bytes};
}

Work Operations::attention_products(double t) const {
  const Dtype dtype = llm_.attention_dtype();
  const double hidden = llm_.hidden;
  const double heads = static_cast<double>(llm_.heads) / tp_;
  if (!llm_.latent_attention()) {
    Work work = product_of(dtype, t, (heads + 2.0 * kv_heads()) * llm_.head_dim, hidden, 1.0);
    work += product_of(dtype, t, hidden, heads * llm_.head_dim, 1.0);
    return work;
  }
  // Every GPU of the group computes the latents. Keys' and values' up-projections are as many operations whether they
  // widen a prompt's latents or are absorbed into a decode's query and output (DeepSeek-V2, section 2.1.2).
  const double query = heads * (llm_.qk_nope_head_dim + llm_.qk_rope_head_dim);
  const double latents = static_cast<double>(llm_.q_lora_rank) + llm_.kv_lora_rank + llm_.qk_rope_head_dim;
  Work work = product_of(dtype, t, latents + (llm_.q_lora_rank > 0 ? 0.0 : query), hidden, 1.0);
  if (llm_.q_lora_rank > 0) work += product_of(dtype, t, query, llm_.q_lora_rank, 1.0);
  work += product_of(dtype, t, llm_.kv_lora_rank, llm_.qk_nope_head_dim, heads);
  work += product_of(dtype, t, llm_.v_head_dim, llm_.kv_lora_rank, heads);
  work += product_of(dtype, t, hidden, heads * llm_.v_head_dim, 1.0);
  return work;
}

Work Operations::with_experts(double all, const Work& to) const {
  const double groups = parallel_.expert;
  const double width = static_cast<double>(llm_.expert_ffn()) / parallel_.expert_tensor();
  const double touched = expert_use_.touched(all) / groups;
  // Without data groups every GPU has all tokens, and moves them whether their experts are here or not.
  const double moved = kExpertPasses * all * llm_.experts_per_token * llm_.hidden * kActivationBytes /
                       (parallel_.data > 1 ? groups : 1.0);
  const double moving = memory_seconds(moved, profile_.memory_efficiency, profile_.memory_clock_share);
  const auto add = [&](double rows, double count) {
    Work sum =
        with_ffn(to, width, [&](double columns, double inner) { return grouped_product(rows, columns, inner, count); });
    sum += {moving + latency(kExpertRamp), 0.0, moved, moving};
    return sum;
  };
  const double routed = all * llm_.experts_per_token / groups;  // tokens of one GPU's experts
  Work sum = add(routed / touched, touched);
  if (parallel_.expert > 1) {
    // Time is that of the busiest GPU, energy that of the mean one.
    const double busier = expert_use_.imbalance(all);
    const double count = std::min(llm_.experts / groups, touched * busier);
    sum.seconds = std::max(sum.seconds, add(routed * busier / count, count).seconds);
  }
  if (const double padding = llm_.experts / groups * (expert_row_block_ - 1); padding > 0.0) {
    sum = with_ffn(sum, width, [&](double columns, double inner) {
      return product_of(llm_.expert_dtype(), padding, columns, inner, 1.0);
    });
  }
  return sum;
}

Work Operations::layer(double t, bool of_experts) const {
  const double hidden = llm_.hidden;
  const auto dense = [&](double columns, double inner) { return product(t, columns, inner); };
  Work layer = attention_products(t);
  if (of_experts) {
    if (parallel_.data == 1) layer = with_experts(t, layer);
    if (llm_.shared_experts > 0) {
      layer = with_ffn(layer, static_cast<double>(llm_.shared_experts) * llm_.expert_ffn() / tp_, dense);
    }
  } else {
    layer = with_ffn(layer, static_cast<double>(llm_.ffn) / tp_, dense);
  }
  const double traffic = profile_.elementwise_passes * t * hidden * kActivationBytes;
  const double moving = memory_seconds(traffic, profile_.memory_efficiency, profile_.memory_clock_share);
  layer += {moving + latency(profile_.layer_overhead_s), 0.0, traffic, moving};
  const Work reduce = all_reduce(t * hidden * kActivationBytes);
  layer += of_experts && parallel_.data > 1 ? reduce + exchange(t) : reduce * 2.0;
  return layer;
}

Work Operations::dense(std::int64_t tokens) const {
  // A captured graph computes its padding in every kernel, not in the products alone.
  const double t = tokens <= static_cast<std::int64_t>(kTile) ? padded_rows(static_cast<double>(tokens), 1.0)
                                                              : static_cast<double>(tokens);
  const std::int32_t of_experts = llm_.moe_layers();
  if (of_experts == llm_.layers) return layer(t, true) * llm_.layers;
  if (of_experts == 0) return layer(t, false) * llm_.layers;
  return layer(t, true) * of_experts + layer(t, false) * (llm_.layers - of_experts);
}

Work Operations::routed(std::int64_t tokens) const {
  return with_experts(static_cast<double>(tokens), {}) * llm_.moe_layers();
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
  return Work{profile_.decode_attention_head_s * kv_heads() * slowdown_, 0.0, 0.0} * llm_.layers;
}

Work Operations::decode_attention_per_kv_token() const {
  const double heads = static_cast<double>(llm_.heads) / tp_;
  const bool latent = llm_.latent_attention();
  const double bytes =
      (latent ? llm_.kv_values_per_layer() : 2.0 * kv_heads() * llm_.head_dim) * bytes_of(llm_.kv_dtype);
  const double reading =
      memory_seconds(bytes, profile_.decode_attention_efficiency, profile_.decode_attention_clock_share);
  if (!latent) return Work{reading, 4.0 * llm_.heads / tp_ * llm_.head_dim, bytes, reading} * llm_.layers;
  // All heads read one latent: so many operations per byte that the tensor units may be the bottleneck.
  const double flops = 2.0 * heads * (2.0 * llm_.kv_lora_rank + llm_.qk_rope_head_dim);
  const double computing = flops / (gpu_.bf16_flops_per_s * profile_.prefill_attention_efficiency / slowdown_);
  const double seconds = p_norm(computing, reading, profile_.overlap_exponent);
  return Work{seconds, flops, bytes, seconds} * llm_.layers;
}

Work decode_attention(const Work& blocks, const Work& reading) {
  Work work = blocks + reading;
  work.seconds = std::sqrt(blocks.seconds * blocks.seconds + reading.seconds * reading.seconds);
  work.busy = std::min(work.busy, work.seconds);
  return work;
}

double Operations::decode_attention_tail(std::int64_t requests) const {
  const double blocks = std::max<double>(1.0, static_cast<double>(requests)) * kv_heads();
  return 1.0 +
         std::min(profile_.decode_attention_tail_most, profile_.decode_attention_tail_waves * gpu_.sm_count / blocks);
}

Work Operations::prefill_attention_per_pair() const {
  // A prompt's latents are widened: heads of head_dim with values of v_head_dim.
  const double flops = llm_.latent_attention()
                           ? 2.0 * llm_.heads / tp_ * (static_cast<double>(llm_.head_dim) + llm_.v_head_dim)
                           : 4.0 * llm_.heads / tp_ * llm_.head_dim;
  const double rate = gpu_.bf16_flops_per_s * profile_.prefill_attention_efficiency / slowdown_;
  return Work{flops / rate, flops, 0.0, flops / rate} * llm_.layers;
}

Work Operations::prefill_attention_per_token() const {
  const double heads = static_cast<double>(llm_.heads) / tp_;
  const double values = llm_.latent_attention() ? 2.0 * heads * (static_cast<double>(llm_.head_dim) + llm_.v_head_dim)
                                                : (2.0 * llm_.heads / tp_ + 2.0 * kv_heads()) * llm_.head_dim;
  const double bytes = values * kActivationBytes;
  const double moving =
      memory_seconds(bytes, profile_.prefill_attention_memory_efficiency, profile_.memory_clock_share);
  return Work{moving, 0.0, bytes, moving} * llm_.layers;
}

}  // namespace wattle::engine
