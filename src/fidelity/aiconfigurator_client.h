#pragma once
// How the end-to-end samples that aiconfigurator publishes were taken: what the client sent, how the engine was
// started.
#include <cstdint>
#include <string>

#include "fidelity/benchmark_run.h"

namespace wattle::fidelity {

/// One row of the sample, as far as it says how it was taken.
struct SampleRow {
  std::string source;   ///< silicon_data_source
  std::string backend;  ///< vllm, sglang, trtllm
  std::string model;    ///< of our specifications
  std::string gpu;
  double input_tokens = 0.0;
  double output_tokens = 0.0;
  std::int32_t concurrency = 0;
  std::int32_t attention_data = 1;  ///< groups of data-parallel attention
  std::int32_t tensor = 1;          ///< GPUs that share one's attention
  std::string precision = {};       ///< fp8, fp4, ...

  /// "gap-analysis" files: fixed lengths, engines started by aiconfigurator's generator. Else InferenceMAX's.
  [[nodiscard]] bool fixed_lengths() const;
};

/// What the client sent, without a clock, and how the engine behind it was started.
struct SampleRun {
  Load load;
  engine::EngineOptions engine;
};
[[nodiscard]] SampleRun run_of(const SampleRow& row);

}  // namespace wattle::fidelity
