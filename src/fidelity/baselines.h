#pragma once
// Rival power models, on the same step times as ours.
#include "fidelity/experiment.h"
#include "model/step.h"

namespace wattle::fidelity {

/// A rival's power of one step of an instance, in the form benchmark_run calls.
struct RivalPower {
  Rival rival;
  GpuSpec gpu;
  LlmSpec llm;
  std::int32_t tp = 1;

  [[nodiscard]] static double step(const void* self, const StepShape& shape, double seconds, double ours_w);
};

/// Parameters one token passes through.
[[nodiscard]] double active_parameters(const LlmSpec& llm);

}  // namespace wattle::fidelity
