#pragma once
// Prepares a scenario with known loads under one recipe: turns names into objects.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "engine/step_model.h"
#include "journal/record.h"
#include "plan/load_table.h"
#include "sim/simulation.h"
#include "systems/recipe.h"
#include "systems/site_fleet.h"

namespace wattle::experiment {

/// All objects of a scenario under a recipe, with their owners. `setup` points into the rest.
struct PreparedRun {
  journal::RunFacts facts;
  std::vector<std::unique_ptr<engine::StepModel>> models;  ///< by pool
  std::vector<std::shared_ptr<const LatencyModel>> beliefs;
  std::vector<std::shared_ptr<const PowerModel>> powers;
  std::shared_ptr<const plan::LoadTable> loads;                    ///< null: no policy needs it
  std::vector<std::unique_ptr<plan::TableProfile>> load_profiles;  ///< by pool
  std::shared_ptr<const systems::SiteFleet> sites;                 ///< null: no policy plans over sites
  std::vector<RequestLatency> requests;                            ///< by pool; empty: not needed
  std::unique_ptr<workload::RequestSource> source;
  sim::SimulationSetup setup;
};

/// The scenario's workload, from its beginning.
[[nodiscard]] Result<std::unique_ptr<workload::RequestSource>> open_source(const config::LoadedScenario& loaded,
                                                                           const std::string& data_dir);

/// `requests`: Beliefs::request by pool, if the recipe needs them. `source`: what arrives; null: the scenario's
/// workload. Loads must be numbers (saturation.h). Errors: bad input (file, line, key).
[[nodiscard]] Result<PreparedRun> prepare(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                                          const std::string& data_dir, std::span<const RequestLatency> requests = {},
                                          std::unique_ptr<workload::RequestSource> source = nullptr);

/// The scenario with one instance of `pool` instead of the fleet, for measurements: without faults and carbon sources.
[[nodiscard]] config::LoadedScenario alone(const config::LoadedScenario& loaded, std::size_t pool);

/// Facts about the scenario's fleet, with ids in the pools' order; both drivers use it, so that journals name the same
/// instances.
[[nodiscard]] journal::RunFacts run_facts(const config::LoadedScenario& loaded, const std::string& recipe,
                                          const std::string& driver, const config::ClassOptions& classes = {});

}  // namespace wattle::experiment
