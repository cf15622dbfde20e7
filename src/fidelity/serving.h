#pragma once
// A row measured on one instance at steady load, and its simulation.
#include <functional>
#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/step_model.h"
#include "fidelity/benchmark_run.h"
#include "fidelity/experiment.h"
#include "fidelity/table.h"
#include "model/hardware.h"

namespace wattle::fidelity {

struct Instance {
  GpuSpec gpu;
  LlmSpec llm;
  Parallelism shape;
  engine::EngineOptions engine = benchmark_engine();
};

/// Error: the model does not fit, or the parallelism does not divide it.
[[nodiscard]] Result<engine::StepModel> instance(const Instance& at, const engine::HardwareProfile& profile);

/// Simulates `load` and returns `quantities` in the given order, by name: power_w, energy_per_token_j (of output),
/// ttft_p99_ms, ttft_mean_ms, tpot_p99_ms, tpot_mean_ms, itl_p50_ms. NaN for other names.
[[nodiscard]] std::function<Result<Simulated>(const engine::HardwareProfile&, const Rival&)> serve(
    Instance at, Load load, std::vector<Quantity> quantities);

/// The clock in the row's `column`. Error: the GPU cannot lock it.
[[nodiscard]] Result<MegaHertz> lockable_clock(const Table& t, std::size_t row, std::string_view column,
                                               const GpuSpec& gpu);

}  // namespace wattle::fidelity
