#pragma once
// CPU time of a serving framework, independent of GPU clocks. One set of constants for all models, GPUs and files;
// fidelity's clients and the scenarios name a framework and get these.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "units/time.h"

namespace wattle::engine {

enum class Framework : std::uint8_t {
  Profile,              ///< as the GPU's profile was fitted (vLLM V1, mostly); nothing below
  VllmV0,               ///< before V1: scheduler, detokeniser and API server share one process
  Vllm,                 ///< V1: API server and detokeniser in a separate process, in parallel to the engine core
  Sglang,               ///< scheduling overlapped with the GPU; one tokeniser process for all tokens in and out
  SglangDisaggregated,  ///< the same, with polling for hand-overs in each pass of the loop
  TensorRtLlm,          ///< its PyTorch flow: scheduling overlapped, one process for HTTP and streaming
};

inline constexpr auto kFrameworks = std::to_array<std::pair<std::string_view, Framework>>({
    {"profile", Framework::Profile},
    {"vllm-v0", Framework::VllmV0},
    {"vllm", Framework::Vllm},
    {"sglang", Framework::Sglang},
    {"sglang-pd", Framework::SglangDisaggregated},
    {"tensorrt-llm", Framework::TensorRtLlm},
});
[[nodiscard]] std::string_view name_of(Framework framework);

/// Times of the processes between client and scheduler; requests are served in turn.
struct FrontEnd {
  Span request;
  Span prompt_token;
  Span token;  ///< sent to the client
};

/// Times of the scheduler's process.
struct FrameworkTimes {
  std::optional<Span> step = std::nullopt;  ///< per step; absent: the profile's
  Span prompt = {};                         ///< per prompt of a step
  Span request = {};                        ///< per decoding request of a step
  bool overlapped = false;       ///< it works in parallel to the GPU: the longer time counts; false: the GPU waits
  bool sorts_vocabulary = true;  ///< top-p sampling sorts all logits; false: tokens cost no GPU time
  Span layer = {};               ///< per layer of a step whose kernels are started one by one, without a CUDA graph
  Span parallel_layer = {};      ///< the same on several GPUs, in addition
  Span experts = {};  ///< per layer of a step with prompts, which is in no CUDA graph: starting its expert kernels
  Span latent_attention = {};  ///< the same for latent attention
  FrontEnd front_end = {};
};

[[nodiscard]] FrameworkTimes times_of(Framework framework);

}  // namespace wattle::engine
