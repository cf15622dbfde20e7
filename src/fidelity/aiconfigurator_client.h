#pragma once
// How aiconfigurator's published end-to-end samples were measured: the client's load, and the engine's settings.
#include "fidelity/benchmark_run.h"
#include "fidelity/sample_row.h"

namespace wattle::fidelity {

/// The client's load, without a clock, and the engine's settings.
struct SampleRun {
  Load load;
  engine::EngineOptions engine;
};
/// The row's backend is known.
[[nodiscard]] SampleRun run_of(const SampleRow& row);

[[nodiscard]] bool knows_backend(std::string_view backend);

/// True if the engine had an 8-bit KV cache with weights of at most 8 bits. InferenceMAX's scripts request one except
/// for gpt-oss (on B200: TensorRT-LLM's do, vLLM's from 5 December 2025), MiniMax (on B200: from 3 April 2026), and
/// SGLang on H200; aiconfigurator's generator does for TensorRT-LLM.
[[nodiscard]] bool narrow_kv_cache(const SampleRow& row);

}  // namespace wattle::fidelity
