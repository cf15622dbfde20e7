#pragma once
// Whether a scenario's fleet can serve its model, and whether a recipe's clocks exist on that fleet.
#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// Memory, tensor-parallel degree, roles, duplicate pools. The first problem, at its line.
[[nodiscard]] Result<void> check_fleet(const LoadedScenario& loaded);

/// What a recipe must satisfy on any hardware: eco-freq has clocks, ascending.
[[nodiscard]] Result<void> check_recipe(const LoadedRecipe& loaded);

/// Clocks named by the recipe must be settable on every GPU they apply to.
[[nodiscard]] Result<void> check_recipe_on(const LoadedRecipe& recipe, const LoadedScenario& scenario);

}  // namespace wattle::config
