#include <string_view>

#include "config/records.h"

namespace wattle::config {

template <>
struct Codec<Dtype> : NamedCodec<Dtype, Codec<Dtype>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, Dtype>>({{"bf16", Dtype::Bf16},
                                                              {"fp8", Dtype::Fp8},
                                                              {"nvfp4", Dtype::Nvfp4},
                                                              {"mxfp4", Dtype::Mxfp4},
                                                              {"int4", Dtype::Int4}});
  }
};

const std::vector<Option<GpuSpec>>& gpu_options() {
  using G = GpuSpec;
  constexpr Bounds kClock{1, 10'000};
  static const std::vector<Option<GpuSpec>> options{
      option("clock_min_mhz", &G::clock_min, "MHz", kClock, "Lowest SM clock that can be locked").must(),
      option("clock_max_mhz", &G::clock_max, "MHz", kClock, "Highest SM clock").must(),
      option("clock_step_mhz", &G::clock_step, "MHz", {1, 1000}, "Distance between neighbouring SM clocks").must(),
      option("tdp_w", &G::tdp, "W", {1, 10'000}, "Power limit of the board").must(),
      option("memory_gb", &G::memory_bytes, "GB", {1, 10'000}, "GPU memory, in units of 10^9 bytes").must(),
      option("memory_bandwidth_gb_per_s", &G::memory_bandwidth_bytes_per_s, "GB/s", {1, 1e6},
             "Memory bandwidth on the data sheet")
          .must(),
      option("bf16_tflops", &G::bf16_flops_per_s, "TFLOP/s", {0.01, 1e6}, "Dense 16-bit rate at clock_max_mhz").must(),
      option("fp8_tflops", &G::fp8_flops_per_s, "TFLOP/s", {0, 1e6},
             "Dense 8-bit rate at clock_max_mhz. 0: no units for it; weights are widened to 16 bits"),
      option("fp4_tflops", &G::fp4_flops_per_s, "TFLOP/s", {0, 1e6},
             "Dense 4-bit rate at clock_max_mhz. 0: not supported; 4-bit weights are then computed in 16 bits"),
      option("nvlink_gb_per_s", &G::nvlink_bytes_per_s, "GB/s", {0.1, 1e5},
             "Bandwidth between GPUs, per direction (NVLink, Infinity Fabric, or PCIe if there is neither)")
          .must(),
      option("switch_reduces", &G::switch_reduces,
             "The switch between the GPUs adds up what they send (NVLink SHARP: NVSwitch of the third generation or "
             "later)"),
      option("sm_count", &G::sm_count, "", {1, 10'000}, "Streaming multiprocessors, or compute units").must(),
  };
  return options;
}

const std::vector<Option<LlmSpec>>& llm_options() {
  using L = LlmSpec;
  constexpr Bounds kWidth{1, 10'000'000};
  constexpr Bounds kSmall{1, 100'000};
  static const std::vector<Option<LlmSpec>> options{
      option("layers", &L::layers, "", {1, 10'000}, "Transformer layers").must(),
      option("hidden", &L::hidden, "", kWidth, "Hidden size").must(),
      option("heads", &L::heads, "", kSmall, "Query heads").must(),
      option("kv_heads", &L::kv_heads, "", kSmall, "Key/value heads. Must divide heads; 1 with kv_lora_rank").must(),
      option("head_dim", &L::head_dim, "", kSmall,
             "Size of one head. With kv_lora_rank: qk_nope_head_dim + qk_rope_head_dim")
          .must(),
      option("ffn", &L::ffn, "", kWidth, "Inner size of a dense feed-forward block, and of an expert if moe_ffn is 0")
          .must(),
      option("gated_ffn", &L::gated_ffn,
             "Gated feed-forward blocks (such as SwiGLU) with three matrices. Off: two matrices"),
      option("experts", &L::experts, "", kSmall, "Routed experts per layer. 1: dense model"),
      option("experts_per_token", &L::experts_per_token, "", kSmall, "Routed experts that each token uses"),
      option("moe_ffn", &L::moe_ffn, "", {0, 10'000'000}, "Inner size of one expert. 0: ffn"),
      option("shared_experts", &L::shared_experts, "", {0, 100'000}, "Experts that every token uses"),
      option("dense_layers", &L::dense_layers, "", {0, 10'000},
             "Layers with a dense block of size ffn instead of experts"),
      option("expert_skew", &L::expert_skew, "", {0, 4},
             "Zipf exponent of how often routing selects the experts. 0: all equally often"),
      option("q_lora_rank", &L::q_lora_rank, "", {0, 100'000},
             "Latent attention: rank of the queries' projection. 0: queries are not compressed"),
      option("kv_lora_rank", &L::kv_lora_rank, "", {0, 100'000},
             "Latent attention: rank of the compressed keys and values. 0: no latent attention"),
      option("qk_nope_head_dim", &L::qk_nope_head_dim, "", {0, 100'000},
             "Latent attention: size of a key's part without position encoding"),
      option("qk_rope_head_dim", &L::qk_rope_head_dim, "", {0, 100'000},
             "Latent attention: size of a key's rotary part"),
      option("v_head_dim", &L::v_head_dim, "", {0, 100'000}, "Latent attention: size of a value"),
      option("sliding_window", &L::sliding_window, "tokens", {0, 10'000'000},
             "Tokens that layers with a sliding window attend to. 0: no such layers"),
      option("windowed_layers", &L::windowed_layers, "", {0, 10'000}, "Layers with a sliding window"),
      option("vocab", &L::vocab, "tokens", kWidth, "Vocabulary size").must(),
      option("tied_embeddings", &L::tied_embeddings, "Input and output embeddings share one matrix"),
      option("dtype", &L::dtype, "Number format of the weights. Embeddings stay in 16 bits"),
      option("attention_dtype", &L::attention_weights, "Number format of the Q, K, V and O projections. none: dtype"),
      option("expert_dtype", &L::expert_weights, "Number format of the routed experts. none: dtype"),
      option("kv_dtype", &L::kv_dtype, "Number format of the KV cache: bf16 or fp8"),
  };
  return options;
}

}  // namespace wattle::config
