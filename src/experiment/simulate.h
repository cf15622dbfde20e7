#pragma once
// One scenario under one recipe in the simulator: names become objects, then sim::simulate.
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "engine/step_model.h"
#include "journal/run_directory.h"
#include "model/beliefs.h"
#include "policy/throttllem/throttllem.h"
#include "sim/simulation.h"

namespace wattle::experiment {

struct SimulateOptions {
  bool fast_forward = true;
  bool check_invariants = false;
  /// Where to write the run's files; empty: nowhere.
  std::string out_dir;
  /// WATTLE_DATA; may be empty.
  std::string data_dir;
};

/// Everything a scenario under a recipe is made of, and what keeps it alive. `setup` points into the rest.
struct PreparedRun {
  journal::RunFacts facts;
  std::vector<std::unique_ptr<engine::StepModel>> models;  ///< by pool
  std::vector<std::shared_ptr<const LatencyModel>> beliefs;
  std::unique_ptr<carbon::IntensitySeries> intensity;
  std::unique_ptr<workload::RequestSource> source;
  std::shared_ptr<policy::ThrottllemFleet> throttllem;  ///< the recipe's, or null
  sim::SimulationSetup setup;
};

/// Names become objects. Errors: bad input (file, line, key).
[[nodiscard]] Result<PreparedRun> prepare_run(const config::LoadedScenario& loaded, const config::LoadedRecipe& recipe,
                                              const std::string& data_dir);

/// Runs it and fills in wall time and peak memory. Errors: bad input (file, line, key), an unwritable directory.
[[nodiscard]] Result<journal::RunSummary> run_simulation(const config::LoadedScenario& loaded,
                                                         const config::LoadedRecipe& recipe,
                                                         const SimulateOptions& options);

/// Facts of the scenario's fleet, ids in the pools' order; both drivers use it, so that journals name the same
/// instances.
[[nodiscard]] journal::RunFacts run_facts(const config::LoadedScenario& loaded, const std::string& recipe,
                                          const std::string& driver);

}  // namespace wattle::experiment
