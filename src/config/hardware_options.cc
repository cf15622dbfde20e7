#include <string_view>

#include "config/records.h"

namespace wattle::config {

template <>
struct Codec<Dtype> : NamedCodec<Dtype, Codec<Dtype>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, Dtype>>({{"bf16", Dtype::Bf16}, {"fp8", Dtype::Fp8}});
  }
};

const std::vector<Option<GpuSpec>>& gpu_options() {
  using G = GpuSpec;
  constexpr Bounds kClock{1, 10'000};
  static const std::vector<Option<GpuSpec>> options{
      option("clock_min_mhz", &G::clock_min, "MHz", kClock, "Lowest SM clock that can be locked").must(),
      option("clock_max_mhz", &G::clock_max, "MHz", kClock, "Highest SM clock").must(),
      option("clock_step_mhz", &G::clock_step, "MHz", {1, 1000}, "Distance of neighbouring SM clocks").must(),
      option("tdp_w", &G::tdp, "W", {1, 10'000}, "Board power limit").must(),
      option("memory_gb", &G::memory_bytes, "GB", {1, 10'000}, "Device memory, 10^9 bytes").must(),
      option("memory_bandwidth_gb_per_s", &G::memory_bandwidth_bytes_per_s, "GB/s", {1, 1e6}, "Data-sheet bandwidth")
          .must(),
      option("bf16_tflops", &G::bf16_flops_per_s, "TFLOP/s", {0.01, 1e6}, "Dense 16-bit rate at clock_max_mhz").must(),
      option("fp8_tflops", &G::fp8_flops_per_s, "TFLOP/s", {0, 1e6}, "Dense 8-bit rate at clock_max_mhz; 0: none"),
      option("nvlink_gb_per_s", &G::nvlink_bytes_per_s, "GB/s", {0.1, 1e5},
             "GPU-to-GPU bandwidth per direction (NVLink, Infinity Fabric, else PCIe)")
          .must(),
      option("sm_count", &G::sm_count, "", {1, 10'000}, "Streaming multiprocessors or compute units").must(),
  };
  return options;
}

const std::vector<Option<LlmSpec>>& llm_options() {
  using L = LlmSpec;
  constexpr Bounds kWidth{1, 10'000'000};
  constexpr Bounds kSmall{1, 100'000};
  static const std::vector<Option<LlmSpec>> options{
      option("layers", &L::layers, "", {1, 10'000}, "Transformer layers").must(),
      option("hidden", &L::hidden, "", kWidth, "Model width").must(),
      option("heads", &L::heads, "", kSmall, "Query heads").must(),
      option("kv_heads", &L::kv_heads, "", kSmall, "Key/value heads; must divide heads").must(),
      option("head_dim", &L::head_dim, "", kSmall, "Width of one head").must(),
      option("ffn", &L::ffn, "", kWidth, "Inner width of the feed-forward block (of one expert)").must(),
      option("gated_ffn", &L::gated_ffn, "SwiGLU-like: three matrices instead of two"),
      option("experts", &L::experts, "", kSmall, "Feed-forward experts; 1: dense"),
      option("experts_per_token", &L::experts_per_token, "", kSmall, "Experts a token passes through"),
      option("vocab", &L::vocab, "tokens", kWidth, "Vocabulary").must(),
      option("tied_embeddings", &L::tied_embeddings, "Input and output embedding are one matrix"),
      option("dtype", &L::dtype, "Number format of the weights"),
      option("attention_in_16_bits", &L::attention_in_16_bits, "Q, K, V and O keep 16 bits where dtype is fp8"),
      option("kv_dtype", &L::kv_dtype, "Number format of the KV cache"),
  };
  return options;
}

}  // namespace wattle::config
