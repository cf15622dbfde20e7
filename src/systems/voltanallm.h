#pragma once
#include "policy/frequency/clock_choice.h"
#include "systems/recipe.h"

namespace wattle::systems {

/// For routers of the decode leg: where the recipe's clocks are EcoFreq's to command, how; else that they stay as they
/// are.
[[nodiscard]] policy::ClocksOfInstances clocks_of_decodes(const Recipe& recipe);

}  // namespace wattle::systems
