#pragma once
// What a serving framework spends on the CPU, which no GPU clock touches. One set of constants for every model, GPU and
// file; fidelity's clients and the scenarios name a framework and get these.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "units/time.h"

namespace wattle::engine {

enum class Framework : std::uint8_t {
  Profile,              ///< as the GPU's profile was fitted (vLLM V1, mostly); nothing below
  VllmV0,               ///< before V1: scheduler, detokeniser and API server take turns in one process
  Vllm,                 ///< V1: API server and detokeniser in a process of their own, beside the engine core
  Sglang,               ///< scheduling overlapped with the GPU; one tokeniser process for all tokens in and out
  SglangDisaggregated,  ///< the same, where a hand-over adds polling to each pass of the loop
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

/// Of the processes between client and scheduler, served in turn.
struct FrontEnd {
  Span request;
  Span prompt_token;
  Span token;  ///< sent to the client
};

/// Of the scheduler's process.
struct FrameworkTimes {
  std::optional<Span> step = std::nullopt;  ///< per step; absent: the profile's
  Span prompt = {};                         ///< per prompt of a step
  Span request = {};                        ///< per decoding request of a step
  bool overlapped = false;                  ///< it works while the GPU does: the longer counts; else the GPU waits
  bool sorts_vocabulary = true;             ///< top-p sampling sorts all logits; else tokens cost no time of the GPU's
  Span layer = {};             ///< per layer of a step, kernels started one by one: no CUDA graph holds them
  Span parallel_layer = {};    ///< likewise on several GPUs, beside it
  Span experts = {};           ///< per layer of a step with prompts, which no CUDA graph holds: starting its kernels
  Span latent_attention = {};  ///< likewise
  FrontEnd front_end = {};
};

[[nodiscard]] FrameworkTimes times_of(Framework framework);

}  // namespace wattle::engine
