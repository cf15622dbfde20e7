#pragma once
// How well a recipe decides by each source of telemetry: the same scenario and policies, nothing else differs.
// Simulated.
#include <functional>
#include <string>
#include <vector>

#include "experiment/simulate.h"
#include "model/telemetry_source.h"

namespace wattle::experiment {

struct SourceRun {
  std::string source;  ///< as a table names it
  TelemetrySource telemetry = TelemetrySource::StepStarts;
  Span period;  ///< of readings; zero: it has none
  journal::RunSummary summary;
};

/// Step reports at the start first, then by what is known less and later; gauges at three periods.
[[nodiscard]] std::vector<SourceRun> telemetry_sources();

/// Runs `recipe` on `scenario` once by each; `summary` is filled in. Errors: as run_simulation().
[[nodiscard]] Result<std::vector<SourceRun>> run_by_source(const config::LoadedScenario& scenario,
                                                           const systems::LoadedRecipe& recipe,
                                                           const SimulateOptions& options);

}  // namespace wattle::experiment
