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
  Vllm,                 ///< V1: API server and detokeniser in a process of their own, beside the engine core
  Sglang,               ///< scheduling overlapped with the GPU; one tokeniser process for all tokens in and out
  SglangDisaggregated,  ///< prefill without overlap; decode loses it to newcomers, below
  TensorRtLlm,          ///< its PyTorch flow: scheduling overlapped, one process for HTTP and streaming
};

inline constexpr auto kFrameworks = std::to_array<std::pair<std::string_view, Framework>>({
    {"profile", Framework::Profile},
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

struct FrameworkTimes {
  std::optional<Span> step = std::nullopt;  ///< of the scheduler, per step, the GPU waiting; absent: the profile's
  bool overlapped = false;                  ///< it works while the GPU does: the longer counts
  bool sorts_vocabulary =
      true;  ///< top-p sampling by a sort of all logits; else the profile's sampling time is left out
  FrontEnd front_end = {};
  /// Passes of the decode loop between a prompt's end and its first token at the client; 0: the prefill engine sends
  /// it.
  double handoff_steps = 0.0;
};

[[nodiscard]] FrameworkTimes times_of(Framework framework);

}  // namespace wattle::engine
