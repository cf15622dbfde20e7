#pragma once
// The simulated hardware of an instance: data sheet, model and the fitted factors of profiles/<gpu>.toml.
#include "base/error.h"
#include "engine/step_model.h"

namespace wattle::config {

/// Errors: a bad profile file, a model that does not fit.
[[nodiscard]] Result<engine::StepModel> make_step_model(const GpuSpec& gpu, const LlmSpec& llm,
                                                        const Parallelism& parallel,
                                                        const engine::EngineOptions& options);

}  // namespace wattle::config
