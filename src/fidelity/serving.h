#pragma once
// A row that was measured on one instance serving at steady load, and our value for it.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/step_model.h"
#include "fidelity/benchmark_run.h"
#include "fidelity/experiment.h"
#include "model/hardware.h"

namespace wattle::fidelity {

struct Instance {
  GpuSpec gpu;
  LlmSpec llm;
  Parallelism shape;
  engine::EngineOptions engine = benchmark_engine();
};

/// None where the model does not fit.
[[nodiscard]] std::optional<engine::StepModel> instance(const Instance& at, const engine::HardwareProfile& profile);

/// Serves `load` and reads `quantities` of it, in the order asked; by name: power_w, energy_per_token_j (of output),
/// ttft_p99_ms, ttft_mean_ms, tpot_p99_ms, tpot_mean_ms, itl_p50_ms. NaN for one that is none of them, or cannot run.
[[nodiscard]] std::function<Simulated(const engine::HardwareProfile&, const Rival&)> serve(
    Instance at, Load load, std::vector<Quantity> quantities);

/// Our name of a GPU by its published one; that itself where we have none.
[[nodiscard]] std::string published_gpu(const std::string& published);

}  // namespace wattle::fidelity
