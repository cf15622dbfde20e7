#pragma once
// How the end-to-end samples that aiconfigurator publishes were taken: what the client sent, how the engine was
// started.
#include "fidelity/benchmark_run.h"
#include "fidelity/sample_row.h"

namespace wattle::fidelity {

/// What the client sent, without a clock, and how the engine behind it was started.
struct SampleRun {
  Load load;
  engine::EngineOptions engine;
};
[[nodiscard]] SampleRun run_of(const SampleRow& row);

/// That the engine kept an 8-bit KV cache where weights have no more bits. InferenceMAX's scripts ask for one but where
/// they serve gpt-oss (on B200 TensorRT-LLM's do, vLLM's from 5 December 2025 on), MiniMax (on B200 from 3 April 2026
/// on), or on SGLang and H200; aiconfigurator's generator does for TensorRT-LLM.
[[nodiscard]] bool narrow_kv_cache(const SampleRow& row);

}  // namespace wattle::fidelity
