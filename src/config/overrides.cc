#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "config/load.h"
#include "config/records.h"

namespace wattle::config {

std::int64_t pool_index(std::string_view key) {
  constexpr std::string_view kPrefix = "fleet.";
  if (!key.starts_with(kPrefix)) return -1;
  key.remove_prefix(kPrefix.size());
  std::int64_t index = -1;
  const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool whole = end == key.data() + key.size() || *end == '.';
  return code == std::errc{} && whole ? index : -1;
}

Result<std::vector<Override>> parse_overrides(const std::vector<std::string>& arguments) {
  std::vector<Override> overrides;
  for (const std::string& argument : arguments) {
    const auto equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      return bad_input("--set " + argument, "write key=value, as in --set slo.ttft_ms=600");
    }
    overrides.push_back({argument.substr(0, equals), argument.substr(equals + 1)});
  }
  return overrides;
}

Result<SplitOverrides> split_overrides(const std::vector<Override>& overrides) {
  std::vector<const OptionSpec*> recipe = specs_of(recipe_options());
  // Both files have a name and a description; a run's are the scenario's.
  std::erase_if(recipe, [](const OptionSpec* spec) { return spec->key == "name" || spec->key == "description"; });
  std::vector<const OptionSpec*> scenario = specs_of(scenario_options());
  const auto pool = specs_of(pool_options());
  scenario.insert(scenario.end(), pool.begin(), pool.end());

  SplitOverrides split;
  for (const Override& override_ : overrides) {
    const auto named = [&](const OptionSpec* spec) { return spec->key == override_.key; };
    if (std::ranges::any_of(recipe, named)) {
      split.recipe.push_back(override_);
    } else if (pool_index(override_.key) >= 0 || std::ranges::any_of(scenario, named)) {
      split.scenario.push_back(override_);
    } else {
      std::vector<const OptionSpec*> all = scenario;
      all.insert(all.end(), recipe.begin(), recipe.end());
      return std::unexpected(unknown_key(override_.key, override_.where(), all));
    }
  }
  return split;
}

}  // namespace wattle::config
