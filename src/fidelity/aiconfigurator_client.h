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
  double input_tokens = 0.0;
  double output_tokens = 0.0;
  std::int32_t concurrency = 0;

  /// "gap-analysis" files: fixed lengths, engines started by aiconfigurator's generator. Else InferenceMAX's.
  [[nodiscard]] bool fixed_lengths() const;
};

/// The run behind a row, without its clock.
[[nodiscard]] Load load_of(const SampleRow& row);

}  // namespace wattle::fidelity
