#pragma once
// What a GPU and a model are, as their data sheets say. Fitted factors live in profiles/ and belong to engine/ or
// predict/.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "units/quantity.h"

namespace wattle {

/// Of weights or of the KV cache. Nvfp4, Mxfp4 and Int4 are for weights alone; a scale belongs to every 16, 32 and 32
/// of their values.
enum class Dtype : std::uint8_t { Bf16, Fp8, Nvfp4, Mxfp4, Int4 };

/// Per value, its share of the scale included.
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
  double fp4_flops_per_s = 0.0;      ///< 0 = none: 4-bit weights are widened and computed in 16 bits
  double nvlink_bytes_per_s = 300e9;
  bool switch_reduces = false;  ///< what GPUs send is summed in the switch between them (NVLink SHARP)
  std::int32_t sm_count = 108;
};

/// Every clock that can be locked, ascending, from the highest down by steps (so that the highest is among them
/// whatever the step) to the lowest one not below `lowest`.
[[nodiscard]] inline std::vector<MegaHertz> supported_clocks(const GpuSpec& gpu, MegaHertz lowest = MegaHertz{0}) {
  std::vector<MegaHertz> clocks;
  const auto floor = std::min(gpu.clock_max, std::max(gpu.clock_min, lowest)).value();
  for (std::int32_t mhz = gpu.clock_max.value(); mhz >= floor; mhz -= gpu.clock_step.value()) clocks.emplace_back(mhz);
  std::ranges::reverse(clocks);
  return clocks;
}

/// Whether it can be locked to exactly this one.
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
  std::int32_t ffn = 14336;  ///< inner width of a dense layer; of an expert, too, where moe_ffn is 0
  bool gated_ffn = true;     ///< SwiGLU: three matrices instead of two
  // Mixture of experts.
  std::int32_t experts = 1;  ///< routed ones of a layer; 1 = dense
  std::int32_t experts_per_token = 1;
  std::int32_t moe_ffn = 0;         ///< inner width of one expert; 0 = ffn
  std::int32_t shared_experts = 0;  ///< of that width, passed by every token
  std::int32_t dense_layers = 0;    ///< of the layers, those with a dense FFN of width ffn instead of experts
  double expert_skew = 0.0;         ///< Zipf exponent of how often routing chooses the experts; 0 = all alike
  // Latent attention (DeepSeek-V2, section 2.1); kv_lora_rank 0 = none. Then kv_heads is 1: one latent for all heads.
  std::int32_t q_lora_rank = 0;  ///< 0 = queries are projected at once
  std::int32_t kv_lora_rank = 0;
  std::int32_t qk_nope_head_dim = 0;
  std::int32_t qk_rope_head_dim = 0;
  std::int32_t v_head_dim = 0;
  // Sliding-window attention: this many of the layers see no more than the last `sliding_window` tokens.
  std::int32_t sliding_window = 0;  ///< 0 = none
  std::int32_t windowed_layers = 0;
  std::int32_t vocab = 128256;
  bool tied_embeddings = false;
  Dtype dtype = Dtype::Bf16;               ///< of the weights; the two below: where some have another
  std::optional<Dtype> attention_weights;  ///< Q, K, V and O (Meta's Llama-3.1-405B-FP8 keeps them in 16 bits)
  std::optional<Dtype> expert_weights;     ///< routed experts (gpt-oss: MXFP4, the rest 16 bits)
  Dtype kv_dtype = Dtype::Bf16;            ///< of the KV cache

  [[nodiscard]] bool latent_attention() const { return kv_lora_rank > 0; }
  [[nodiscard]] std::int32_t moe_layers() const { return experts > 1 ? layers - dense_layers : 0; }
  [[nodiscard]] std::int32_t expert_ffn() const { return moe_ffn > 0 ? moe_ffn : ffn; }
  [[nodiscard]] Dtype attention_dtype() const { return attention_weights.value_or(dtype); }
  [[nodiscard]] Dtype expert_dtype() const { return expert_weights.value_or(dtype); }
  /// Embeddings and the LM head of 4-bit checkpoints keep 16 bits.
  [[nodiscard]] Dtype embedding_dtype() const { return four_bits(dtype) ? Dtype::Bf16 : dtype; }

  /// Weights of one layer's attention (Q, K, V, O), of one FFN of this inner width and of both embeddings, in
  /// parameters. Norms, biases and routers are left out: below 0.1 % of any model known here.
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
  /// Dense layers' FFNs and shared experts: what every token passes beside attention and routed experts.
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
  /// Those that a token is multiplied by: with the LM head, without the input embedding.
  [[nodiscard]] double active_parameters() const {
    return layers * attention_parameters() + shared_parameters() +
           static_cast<double>(moe_layers()) * experts_per_token * expert_parameters() +
           static_cast<double>(vocab) * hidden;
  }
  [[nodiscard]] double weight_bytes() const { return split_weight_bytes(1.0, 1.0); }
  /// Bytes of one GPU's share where routed experts are cut in `routed` parts and everything else in `other`.
  [[nodiscard]] double split_weight_bytes(double routed, double other) const {
    const double rest = layers * attention_parameters() * bytes_of(attention_dtype()) +
                        shared_parameters() * bytes_of(dtype) + embedding_parameters() * bytes_of(embedding_dtype());
    const double experts_bytes = routed_parameters() * bytes_of(expert_dtype());
    return routed == other ? (rest + experts_bytes) / other : rest / other + experts_bytes / routed;
  }
  /// K and V of one token in one layer; of latent attention the latent and the rotary key.
  [[nodiscard]] double kv_values_per_layer() const {
    return latent_attention() ? static_cast<double>(kv_lora_rank) + qk_rope_head_dim : 2.0 * kv_heads * head_dim;
  }
  /// Of one token over all layers, in a request of kWindowedContext tokens: windowed layers keep their window alone.
  /// The cache is counted in equal blocks, so longer requests are charged a little too much, shorter ones too little.
  [[nodiscard]] double kv_bytes_per_token() const {
    const double kept = sliding_window > 0 ? std::min(1.0, sliding_window / kWindowedContext) : 1.0;
    return (layers - windowed_layers + windowed_layers * kept) * kv_values_per_layer() * bytes_of(kv_dtype);
  }
  static constexpr double kWindowedContext = 2048.0;
};

/// How one instance's GPUs share a model (vLLM's and SGLang's names). Attention is cut over `tensor` GPUs; `data`
/// groups of these hold attention whole and take requests of their own, while routed experts lie over all
/// tensor x data GPUs: over `expert` of them whole, the rest by tensor parallelism. `pipeline` stages share the layers.
struct Parallelism {
  Parallelism(std::int32_t tensor_parallel = 1) : tensor(tensor_parallel) {}  // NOLINT: the usual case is a TP degree
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::int32_t expert = 1;
  std::int32_t data = 1;

  [[nodiscard]] std::int32_t gpus() const { return tensor * pipeline * data; }
  /// GPUs that hold one expert.
  [[nodiscard]] std::int32_t expert_tensor() const { return std::max(1, tensor * data / expert); }
  /// Of one GPU.
  [[nodiscard]] double weight_bytes(const LlmSpec& llm) const {
    const double other = static_cast<double>(tensor) * pipeline;
    return llm.split_weight_bytes(other * data, other);
  }
  /// Likewise, of a token of its own data group. With more GPUs than KV heads each head is stored more than once.
  [[nodiscard]] double kv_bytes_per_token(const LlmSpec& llm) const {
    const double copies = std::max(1.0, static_cast<double>(tensor) / llm.kv_heads);
    return llm.kv_bytes_per_token() * copies / tensor / pipeline;
  }
  bool operator==(const Parallelism&) const = default;
};

}  // namespace wattle
