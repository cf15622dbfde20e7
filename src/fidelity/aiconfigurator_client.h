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

}  // namespace wattle::fidelity
