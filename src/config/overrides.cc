#include <fmt/format.h>

#include <algorithm>

#include "config/load.h"
#include "config/records.h"
#include "config/repeated.h"

namespace wattle::config {

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

std::vector<const OptionSpec*> scenario_keys() {
  std::vector<const OptionSpec*> all = specs_of(scenario_options());
  for_each_list([&](const char*, const char*, const auto& options, auto) {
    const auto element = specs_of(options);
    all.insert(all.end(), element.begin(), element.end());
  });
  return all;
}

bool is_scenario_key(std::string_view key) {
  bool in_list = false;
  for_each_list(
      [&](const char* name, const char*, const auto&, auto) { in_list = in_list || element_index(key, name) >= 0; });
  return in_list || std::ranges::any_of(scenario_keys(), [&](const OptionSpec* spec) { return spec->key == key; });
}

}  // namespace wattle::config
