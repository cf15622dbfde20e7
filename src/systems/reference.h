#pragma once
// Texts made from the registry and the option records of recipes.
#include <string>
#include <vector>

#include "config/reference.h"
#include "systems/recipe.h"

namespace wattle::systems {

/// Every page of docs/reference, that of recipes included.
[[nodiscard]] std::vector<config::ReferencePage> reference_pages();

/// As config::effective_text, of a recipe: without `extends`, with what that gave it.
[[nodiscard]] std::string effective_text(const LoadedRecipe& loaded);

}  // namespace wattle::systems
