#include "engine/framework.h"

#include <algorithm>

namespace wattle::engine {

// Chosen on the fitted half of aiconfigurator's end-to-end samples, all models, GPUs and files of a framework together:
// among 2 to 20 ms, 0 to 5 us and 0 to 100 us. A 2-us token is a fast tokeniser's.
namespace {
constexpr Span kTokenising = Span::us(2);
}

std::string_view name_of(Framework framework) {
  return std::ranges::find(kFrameworks, framework, &std::pair<std::string_view, Framework>::second)->first;
}

FrameworkTimes times_of(Framework framework) {
  switch (framework) {
    case Framework::Profile:
      return {};
    case Framework::Vllm:
      return {.front_end = {Span::ms(2), kTokenising, Span()}};
    case Framework::Sglang:
      return {.overlapped = true, .front_end = {Span::ms(10), Span(), Span::us(60)}};
    case Framework::SglangDisaggregated:
      // Its decode loop (disaggregation/decode.py of 0.4.8) gives newcomers a pass of their own, in which it launches
      // nothing: with a newcomer or more in nearly every step, scheduling never overlaps. A newcomer waits for the pass
      // in progress, half of it on average, and for one more. The 5.5 ms suit the savings on both the 8B and the 3B
      // panel of VoltanaLLM (docs/validation.md says how other values do); no other set shows this loop.
      return {.step = Span::us(5500), .sorts_vocabulary = false, .handoff_steps = 1.5};
    case Framework::TensorRtLlm:
      return {.overlapped = true, .sorts_vocabulary = false, .front_end = {Span::ms(15), kTokenising, Span::us(55)}};
  }
  return {};
}

}  // namespace wattle::engine
