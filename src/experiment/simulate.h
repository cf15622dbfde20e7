#pragma once
// One scenario under one recipe in the simulator: names become objects, then sim::simulate.
#include <optional>
#include <string>

#include "base/error.h"
#include "config/load.h"
#include "experiment/prepare.h"
#include "journal/run_directory.h"
#include "workload/halves.h"

namespace wattle::experiment {

struct SimulateOptions {
  bool fast_forward = true;
  bool check_invariants = false;
  /// Where to write the run's files; empty: nowhere.
  std::string out_dir;
  /// WATTLE_DATA; may be empty.
  std::string data_dir;
  /// Only requests that arrive in this half of the workload's time.
  std::optional<workload::Half> half;
};

/// Like prepare(), and measures what the scenario leaves open (loads) and the request latencies that the recipe needs.
[[nodiscard]] Result<PreparedRun> prepare_run(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                                              const std::string& data_dir,
                                              std::unique_ptr<workload::RequestSource> source = nullptr);

/// Runs it, once; the summary also counts truncated and extrapolated values.
[[nodiscard]] sim::SimulationResult simulate_prepared(PreparedRun& run, const std::string& recipe);

/// Runs it and fills in wall time and peak memory. Errors: bad input (file, line, key), an unwritable directory.
[[nodiscard]] Result<journal::RunSummary> run_simulation(const config::LoadedScenario& loaded,
                                                         const systems::LoadedRecipe& recipe,
                                                         const SimulateOptions& options);

}  // namespace wattle::experiment
