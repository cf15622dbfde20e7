#include "systems/registry.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace wattle::systems {

void register_baselines(Registry& to);
void register_voltanallm(Registry& to);
void register_wattle(Registry& to);
void register_throttllem(Registry& to);
void register_retail(Registry& to);
void register_freesh(Registry& to);
void register_dynamollm(Registry& to);

const Registry& registry() {
  static const Registry all = [] {
    Registry made;
    register_baselines(made);
    register_voltanallm(made);
    register_wattle(made);
    register_throttllem(made);
    register_retail(made);
    register_freesh(made);
    register_dynamollm(made);
    return made;
  }();
  return all;
}

const PolicyEntry* Registry::find(SlotKind slot, std::string_view name) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const PolicyEntry& e) { return e.slot == slot && e.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<std::string> Registry::names(SlotKind slot) const {
  std::vector<std::string> all;
  for (const PolicyEntry& entry : entries_) {
    if (entry.slot == slot) all.push_back(entry.name);
  }
  return all;
}

std::unexpected<Error> Making::refuse(std::string_view key, const std::string& problem) const {
  const std::string path = fmt::format("{}.{}", section, key);
  if (recipe.origins == nullptr) return bad_input(path, problem);
  const std::string place = place_of(*recipe.origins, section, key);  // of --set it names the key
  return bad_input(place.starts_with("--set ") ? place : fmt::format("{}: {}", place, path), problem);
}

const PolicyEntry& entry_of(SlotKind slot, const PolicyChoice& choice) {
  const PolicyEntry* entry = registry().find(slot, choice.policy);
  WATTLE_CHECK(entry != nullptr, "a recipe's policies are registered");
  return *entry;
}

const std::any& options_in(const PolicyEntry& entry, const PolicyChoice& choice) {
  return choice.options.has_value() ? choice.options : entry.defaults;
}

}  // namespace wattle::systems
