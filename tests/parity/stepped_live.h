#pragma once
// The live control objects (fleet loop, instance loop, telemetry codec) on a stepped virtual clock, with true engines
// behind them. Only parts without decisions are left out: sockets, threads, and the driver call of the actuator
// (commands reach the engine's clock with the simulator's delays).
#include <vector>

#include "experiment/simulate.h"
#include "journal/record.h"

namespace wattle::parity {

/// Runs a prepared scenario and returns every decision, in order. Consumes the run's policies.
[[nodiscard]] std::vector<journal::DecisionRecord> run_stepped_live(experiment::PreparedRun& run);

}  // namespace wattle::parity
