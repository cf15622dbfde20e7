#include "engine/framework.h"

#include <algorithm>

namespace wattle::engine {

// Chosen on the fitted half of aiconfigurator's end-to-end samples, all models, GPUs and files of a framework together:
// among 2 to 20 ms, 0 to 5 us and 0 to 100 us. A 2-us token is a fast tokeniser's.
namespace {
constexpr Span kTokenising = Span::us(2);

// A layer's kernels started one by one, which is what steps with prompts do; docs/decisions/0019 says on which samples
// they were chosen. vLLM's compiler has merged most of them.
constexpr Span kCompiledExperts = Span::us(500);  // of 0.3 to 0.6 ms
constexpr Span kExperts = Span::us(1'000);        // of 1.0, 1.3 and 1.6 ms
constexpr Span kLatentAttention = Span::ms(2);    // of 1 and 2 ms

// vLLM 0.5.4 in ML.ENERGY's runs of 2024: a layer's kernels one by one from Python, then what each request's token
// takes. Of 0 to 1 ms a layer and 0.1 to 0.5 ms a request what suits its four models below 4B, on A100-40G and H100
// together (their time per token is 11 % off; with half and twice the time a layer 17 and 26, a request 27 and 47); of
// 0 to 2 ms a layer on several GPUs what suits its code models (9 %; half and twice 13 and 21).
constexpr Span kV0Layer = Span::us(550);
constexpr Span kV0Request = Span::us(220);
constexpr Span kV0ParallelLayer = Span::us(400);
}  // namespace

std::string_view name_of(Framework framework) {
  return std::ranges::find(kFrameworks, framework, &std::pair<std::string_view, Framework>::second)->first;
}

FrameworkTimes times_of(Framework framework) {
  switch (framework) {
    case Framework::Profile:
      return {};
    case Framework::VllmV0:
      return {.step = Span(), .request = kV0Request, .layer = kV0Layer, .parallel_layer = kV0ParallelLayer};
    case Framework::Vllm:
      return {.experts = kCompiledExperts, .front_end = {Span::ms(2), kTokenising, Span()}};
    case Framework::Sglang:
      return {.overlapped = true,
              .experts = kExperts,
              .latent_attention = kLatentAttention,
              .front_end = {Span::ms(10), Span(), Span::us(60)}};
    case Framework::SglangDisaggregated:
      // CPU time per step and per request, such that 512 requests of an 8B model on eight H200 decode in 25 ms, as in
      // the same samples. The division between the two, and a prompt's time, were chosen with VoltanaLLM's panels of
      // Llama-3.1-8B and Ministral-3B in view. They do not show behind the longer GPU steps of the larger model.
      return {.step = Span::ms(12), .prompt = Span::ms(5), .request = Span::us(25), .overlapped = true};
    case Framework::TensorRtLlm:
      return {.overlapped = true,
              .sorts_vocabulary = false,
              .experts = kExperts,
              .latent_attention = kLatentAttention,
              .front_end = {Span::ms(12), kTokenising, Span::us(55)}};
  }
  return {};
}

}  // namespace wattle::engine
