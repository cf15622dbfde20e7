#pragma once
// Compares a recipe's results with each source of telemetry, everything else being equal. Simulated.
#include <string>
#include <vector>

#include "experiment/simulate.h"
#include "model/telemetry_source.h"

namespace wattle::experiment {

struct SourceRun {
  std::string source;  ///< name in tables
  TelemetrySource telemetry = TelemetrySource::StepStarts;
  Span period;  ///< between readings; zero: none
  journal::RunSummary summary;
};

/// All sources, from the most to the least timely: step reports at the start first; gauges at three periods.
[[nodiscard]] std::vector<SourceRun> telemetry_sources();

/// Runs `recipe` on `scenario` once with each source and fills in `summary`. Errors: those of run_simulation().
[[nodiscard]] Result<std::vector<SourceRun>> run_by_source(const config::LoadedScenario& scenario,
                                                           const systems::LoadedRecipe& recipe,
                                                           const SimulateOptions& options);

}  // namespace wattle::experiment
