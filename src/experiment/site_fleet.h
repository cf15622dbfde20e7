#pragma once
// A scenario's fleet over several sites, as recipes plan it: GPUs per site from its nodes, ratings measured in the
// simulator.
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "carbon/ledger.h"
#include "config/load.h"
#include "engine/step_model.h"
#include "systems/recipe.h"
#include "systems/site_fleet.h"

namespace wattle::experiment {

/// `models`: by pool. `sites`: shared with the ledger, so that the planner knows what is known at a time. Errors: no
/// [[node]]s, or some without GPU or site; those of load_profile.
[[nodiscard]] Result<std::shared_ptr<const systems::SiteFleet>> site_fleet(
    const config::LoadedScenario& loaded, const systems::Recipe& recipe, const std::string& data_dir,
    const std::vector<std::unique_ptr<engine::StepModel>>& models,
    std::shared_ptr<const std::vector<carbon::SiteRates>> sites);

}  // namespace wattle::experiment
