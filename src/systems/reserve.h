#pragma once
// What a recipe can be given to keep more of its objectives, whatever policies it is made of.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/instance.h"
#include "systems/recipe.h"

namespace wattle::systems {

/// One key of a recipe and its settings, ascending in what they keep of the objectives and, as a rule, in energy.
struct Reserve {
  std::string key;
  std::vector<std::string> values;  ///< as --set takes them; "" is what the recipe says itself
};

/// What the recipe's policies registered as their reserve, in the order in which to spare it: of scaling, then of
/// admission or, where that has none, of the clocks of each role in `fleet`. Shares go from 0 to 0.95 in steps of 0.01,
/// clocks from the recipe's own to the highest, what keeps more as it falls from the recipe's own to a twentieth of it.
/// Empty: nothing about the recipe can be set so.
[[nodiscard]] std::vector<Reserve> reserves_of(const Recipe& recipe,
                                               std::span<const std::shared_ptr<const InstanceSpec>> fleet);

}  // namespace wattle::systems
