#pragma once
// The option records of recipes. Which keys a slot takes depends on the policy chosen for it.
#include <string>
#include <string_view>
#include <vector>

#include "config/option.h"
#include "systems/recipe.h"
#include "systems/registry.h"

namespace wattle::systems {

/// A section of a recipe file, and what it sets. With several members it is a shorthand for the sections below it.
struct Section {
  std::string name;  ///< "frequency.decode"
  SlotKind slot{};
  std::vector<PolicyChoice Recipe::*> members;
};

/// Shorthands before what refines them.
[[nodiscard]] const std::vector<Section>& sections();

/// Every key that a recipe with these policies may have. Their options are set through the records alone.
[[nodiscard]] std::vector<config::Option<Recipe>> recipe_options(const Recipe& chosen);
/// The same for all policies together: what --set and a file's keys are distinguished by.
[[nodiscard]] const std::vector<config::OptionSpec>& recipe_keys();
/// The records of a section's policy and mode.
[[nodiscard]] std::vector<config::Option<Recipe>> head_options(const Section& section);
/// What an option of [length] or [emergency] needs to do anything and this recipe lacks, as "KEY = VALUE; it is ...";
/// empty: nothing.
[[nodiscard]] std::string needed_by(const Recipe& recipe, std::string_view key);
/// Those of no section's policy.
[[nodiscard]] const std::vector<config::Option<Recipe>>& general_options();

}  // namespace wattle::systems
