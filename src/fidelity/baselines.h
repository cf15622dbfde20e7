#pragma once
// Other power models, evaluated on our step times.
#include "fidelity/experiment.h"
#include "model/step.h"

namespace wattle::fidelity {

/// Another model's power of one step of an instance.
struct RivalPower {
  Rival rival;
  GpuSpec gpu;
  LlmSpec llm;
  std::int32_t tp = 1;

  /// W of the whole instance; for an idle shape: between steps. Precondition: not our own law.
  [[nodiscard]] double step(const StepShape& shape, double seconds) const;
};

}  // namespace wattle::fidelity
