#pragma once
#include <map>

#include "base/error.h"
#include "config/load.h"
#include "systems/recipe.h"
#include "units/quantity.h"

namespace wattle::experiment {

/// The lowest clock that a recipe's frequency policy may choose for an instance with work, by the TP degree of the
/// scenario's [[fleet]]s. Empty: any clock, not known in advance, or the recipe has no classes by tier, whose plans
/// assume every clock of the profile. Errors: a model that does not fit its GPUs.
[[nodiscard]] Result<std::map<int, MegaHertz>> lowest_clocks(const config::LoadedScenario& loaded,
                                                             const systems::Recipe& recipe);

}  // namespace wattle::experiment
