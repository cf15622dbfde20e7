#pragma once
// What a GPU and a model are, as their data sheets say. Fitted factors live in profiles/ and belong to engine/ or
// predict/.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "units/quantity.h"

namespace wattle {

enum class Dtype : std::uint8_t { Bf16, Fp8 };

[[nodiscard]] constexpr double bytes_of(Dtype t) { return t == Dtype::Bf16 ? 2.0 : 1.0; }

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
  double nvlink_bytes_per_s = 300e9;
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

/// One decoder-only transformer (specs/llms/*.toml).
struct LlmSpec {
  std::string name;
  std::int32_t layers = 32;
  std::int32_t hidden = 4096;
  std::int32_t heads = 32;
  std::int32_t kv_heads = 8;
  std::int32_t head_dim = 128;
  std::int32_t ffn = 14336;
  bool gated_ffn = true;     ///< SwiGLU: three matrices instead of two
  std::int32_t experts = 1;  ///< 1 = dense
  std::int32_t experts_per_token = 1;
  std::int32_t vocab = 128256;
  bool tied_embeddings = false;
  Dtype dtype = Dtype::Bf16;
  bool attention_in_16_bits = false;  ///< Q, K, V and O keep 16 bits where dtype has 8 (Meta's Llama-3.1-405B-FP8)
  Dtype kv_dtype = Dtype::Bf16;       ///< of the KV cache

  /// Weights of one layer's attention (Q, K, V, O) and of one expert's FFN, in parameters.
  [[nodiscard]] double attention_parameters() const {
    const double h = hidden;
    const double q = static_cast<double>(heads) * head_dim;
    const double kv = static_cast<double>(kv_heads) * head_dim;
    return h * q + 2.0 * h * kv + q * h;
  }
  [[nodiscard]] double expert_parameters() const { return (gated_ffn ? 3.0 : 2.0) * static_cast<double>(hidden) * ffn; }
  [[nodiscard]] double parameters() const {
    const double embedding = static_cast<double>(vocab) * hidden * (tied_embeddings ? 1.0 : 2.0);
    return layers * (attention_parameters() + experts * expert_parameters()) + embedding;
  }
  [[nodiscard]] Dtype attention_dtype() const { return attention_in_16_bits ? Dtype::Bf16 : dtype; }
  [[nodiscard]] double weight_bytes() const {
    const double wider = bytes_of(attention_dtype()) - bytes_of(dtype);
    return parameters() * bytes_of(dtype) + layers * attention_parameters() * wider;
  }
  /// K and V of one token over all layers.
  [[nodiscard]] double kv_bytes_per_token() const { return 2.0 * layers * kv_heads * head_dim * bytes_of(kv_dtype); }
};

}  // namespace wattle
