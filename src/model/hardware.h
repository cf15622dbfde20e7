#pragma once
// GPU and model specifications from data sheets. Fitted factors are in profiles/ and belong to engine/ or predict/.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "units/quantity.h"

namespace wattle {

/// Number format of weights or of the KV cache. Nvfp4, Mxfp4 and Int4 are for weights only and have one scale per 16,
/// 32 and 32 values.
enum class Dtype : std::uint8_t { Bf16, Fp8, Nvfp4, Mxfp4, Int4 };

/// Bytes per value, including its share of the scale.
[[nodiscard]] constexpr double bytes_of(Dtype t) {
  switch (t) {
    case Dtype::Bf16:
      return 2.0;
    case Dtype::Fp8:
      return 1.0;
    case Dtype::Nvfp4:  // an 8-bit scale
    case Dtype::Int4:   // a 16-bit scale
      return 0.5625;
    case Dtype::Mxfp4:  // an 8-bit scale
      return 0.53125;
  }
  return 2.0;
}
[[nodiscard]] constexpr bool four_bits(Dtype t) { return bytes_of(t) < 1.0; }

/// One GPU (specs/gpus/*.toml). Bandwidths are per direction.
struct GpuSpec {
  std::string name;
  MegaHertz clock_min{210};
  MegaHertz clock_max{1410};
  MegaHertz clock_step{15};
  Watts tdp{400.0};
  double memory_bytes = 80e9;
  double memory_bandwidth_bytes_per_s = 2.039e12;
  double bf16_flops_per_s = 312e12;  ///< dense, at clock_max
  double fp8_flops_per_s = 0.0;      ///< 0 = none
  double fp4_flops_per_s = 0.0;      ///< 0 = none: 4-bit weights are converted and computed in 16 bits
  double nvlink_bytes_per_s = 300e9;
  bool switch_reduces = false;  ///< the switch between the GPUs sums what they send (NVLink SHARP)
  std::int32_t sm_count = 108;
};

/// All lockable clocks, ascending: from the highest down in steps (so the highest is always included) to the lowest
/// that is not below `lowest`.
[[nodiscard]] inline std::vector<MegaHertz> supported_clocks(const GpuSpec& gpu, MegaHertz lowest = MegaHertz{0}) {
  std::vector<MegaHertz> clocks;
  const auto floor = std::min(gpu.clock_max, std::max(gpu.clock_min, lowest)).value();
  for (std::int32_t mhz = gpu.clock_max.value(); mhz >= floor; mhz -= gpu.clock_step.value()) clocks.emplace_back(mhz);
  std::ranges::reverse(clocks);
  return clocks;
}

/// True if exactly this clock can be locked.
[[nodiscard]] inline bool has_clock(const GpuSpec& gpu, MegaHertz clock) {
  return clock >= gpu.clock_min && clock <= gpu.clock_max &&
         (gpu.clock_max.value() - clock.value()) % gpu.clock_step.value() == 0;
}

/// One decoder-only transformer (specs/llms/*.toml).
struct LlmSpec {
  std::string name;
  std::int32_t layers = 32;
  std::int32_t hidden = 4096;
  std::int32_t heads = 32;
  std::int32_t kv_heads = 8;
  std::int32_t head_dim = 128;
  std::int32_t ffn = 14336;  ///< inner size of a dense layer, and of an expert if moe_ffn is 0
  bool gated_ffn = true;     ///< SwiGLU: three matrices instead of two
  // Mixture of experts.
  std::int32_t experts = 1;  ///< routed experts per layer; 1 = dense
  std::int32_t experts_per_token = 1;
  std::int32_t moe_ffn = 0;         ///< inner size of one expert; 0 = ffn
  std::int32_t shared_experts = 0;  ///< of that size, used by every token
  std::int32_t dense_layers = 0;    ///< number of layers with a dense FFN of size ffn instead of experts
  double expert_skew = 0.0;         ///< Zipf exponent of how often routing selects the experts; 0 = uniform
  // Latent attention (DeepSeek-V2, section 2.1); kv_lora_rank 0 = none. Then kv_heads is 1: one latent for all heads.
  std::int32_t q_lora_rank = 0;  ///< 0 = queries are not compressed
  std::int32_t kv_lora_rank = 0;
  std::int32_t qk_nope_head_dim = 0;
  std::int32_t qk_rope_head_dim = 0;
  std::int32_t v_head_dim = 0;
  // Sliding-window attention: this many layers attend only to the last `sliding_window` tokens.
  std::int32_t sliding_window = 0;  ///< 0 = none
  std::int32_t windowed_layers = 0;
  std::int32_t vocab = 128256;
  bool tied_embeddings = false;
  Dtype dtype = Dtype::Bf16;               ///< of the weights, except where one of the next two differs
  std::optional<Dtype> attention_weights;  ///< Q, K, V and O (Meta's Llama-3.1-405B-FP8 keeps them in 16 bits)
  std::optional<Dtype> expert_weights;     ///< routed experts (gpt-oss: MXFP4, the rest 16 bits)
  Dtype kv_dtype = Dtype::Bf16;            ///< of the KV cache

  [[nodiscard]] bool latent_attention() const { return kv_lora_rank > 0; }
  [[nodiscard]] std::int32_t moe_layers() const { return experts > 1 ? layers - dense_layers : 0; }
  [[nodiscard]] std::int32_t expert_ffn() const { return moe_ffn > 0 ? moe_ffn : ffn; }
  [[nodiscard]] Dtype attention_dtype() const { return attention_weights.value_or(dtype); }
  [[nodiscard]] Dtype expert_dtype() const { return expert_weights.value_or(dtype); }

  /// Parameters of one layer's attention (Q, K, V, O), of one FFN of this inner size, and of both embeddings. Norms,
  /// biases and routers are left out: below 0.1 % of any model known here.
  [[nodiscard]] double attention_parameters() const {
    const double h = hidden;
    if (latent_attention()) {
      const double q = static_cast<double>(heads) * (qk_nope_head_dim + qk_rope_head_dim);
      return (q_lora_rank > 0 ? q_lora_rank * (h + q) : h * q) + h * (kv_lora_rank + qk_rope_head_dim) +
             static_cast<double>(kv_lora_rank) * heads * (qk_nope_head_dim + v_head_dim) +
             static_cast<double>(heads) * v_head_dim * h;
    }
    const double q = static_cast<double>(heads) * head_dim;
    const double kv = static_cast<double>(kv_heads) * head_dim;
    return h * q + 2.0 * h * kv + q * h;
  }
  [[nodiscard]] double ffn_parameters(double width) const { return (gated_ffn ? 3.0 : 2.0) * hidden * width; }
  [[nodiscard]] double expert_parameters() const { return ffn_parameters(expert_ffn()); }
  [[nodiscard]] double embedding_parameters() const {
    return static_cast<double>(vocab) * hidden * (tied_embeddings ? 1.0 : 2.0);
  }
  /// FFNs of dense layers and shared experts: what every token uses besides attention and routed experts.
  [[nodiscard]] double shared_parameters() const {
    return (layers - moe_layers()) * ffn_parameters(ffn) +
           static_cast<double>(moe_layers()) * shared_experts * expert_parameters();
  }
  [[nodiscard]] double routed_parameters() const {
    return static_cast<double>(moe_layers()) * experts * expert_parameters();
  }
  [[nodiscard]] double parameters() const {
    return layers * attention_parameters() + shared_parameters() + routed_parameters() + embedding_parameters();
  }
  /// Parameters that each token is multiplied by: with the LM head, without the input embedding.
  [[nodiscard]] double active_parameters() const {
    return layers * attention_parameters() + shared_parameters() +
           static_cast<double>(moe_layers()) * experts_per_token * expert_parameters() +
           static_cast<double>(vocab) * hidden;
  }
  [[nodiscard]] double weight_bytes() const { return split_weight_bytes(1.0, 1.0); }
  /// Bytes on one GPU if routed experts are split into `routed` parts and everything else into `other`.
  [[nodiscard]] double split_weight_bytes(double routed, double other) const {
    const double rest = layers * attention_parameters() * bytes_of(attention_dtype()) +
                        shared_parameters() * bytes_of(dtype) +
                        embedding_parameters() * bytes_of(Dtype::Bf16);  // whatever the checkpoint's format
    const double experts_bytes = routed_parameters() * bytes_of(expert_dtype());
    return routed == other ? (rest + experts_bytes) / other : rest / other + experts_bytes / routed;
  }
  /// KV values of one token in one layer; with latent attention the latent vector and the rotary key.
  [[nodiscard]] double kv_values_per_layer() const {
    return latent_attention() ? static_cast<double>(kv_lora_rank) + qk_rope_head_dim : 2.0 * kv_heads * head_dim;
  }
  /// KV bytes of one token over all layers, in a request of kWindowedContext tokens: layers with a sliding window keep
  /// only the window. The cache is counted in equal blocks, so longer requests are counted slightly too large, shorter
  /// ones too small.
  [[nodiscard]] double kv_bytes_per_token() const {
    const double kept = sliding_window > 0 ? std::min(1.0, sliding_window / kWindowedContext) : 1.0;
    return (layers - windowed_layers + windowed_layers * kept) * kv_values_per_layer() * bytes_of(kv_dtype);
  }
  static constexpr double kWindowedContext = 2048.0;
};

/// How an instance's GPUs share a model (names as in vLLM and SGLang). Attention is split over `tensor` GPUs; `data`
/// groups of these each hold all attention weights and serve their own requests, while routed experts are distributed
/// over all tensor x data GPUs: whole experts over `expert` parts, within a part by tensor parallelism. `pipeline`
/// stages share the layers.
struct Parallelism {
  Parallelism(std::int32_t tensor_parallel = 1) : tensor(tensor_parallel) {}  // NOLINT: the usual case is a TP degree
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::int32_t expert = 1;
  std::int32_t data = 1;

  [[nodiscard]] std::int32_t gpus() const { return tensor * pipeline * data; }
  /// Number of GPUs that share one expert.
  [[nodiscard]] std::int32_t expert_tensor() const { return std::max(1, tensor * data / expert); }
  /// Weights on one GPU.
  [[nodiscard]] double weight_bytes(const LlmSpec& llm) const {
    const double other = static_cast<double>(tensor) * pipeline;
    return llm.split_weight_bytes(other * data, other);
  }
  /// KV bytes on one GPU per token of its data group. With more GPUs than KV heads each head is stored more than once.
  [[nodiscard]] double kv_bytes_per_token(const LlmSpec& llm) const {
    const double copies = std::max(1.0, static_cast<double>(tensor) / llm.kv_heads);
    return llm.kv_bytes_per_token() * copies / tensor / pipeline;
  }
  bool operator==(const Parallelism&) const = default;
};

}  // namespace wattle
