// `wattle recipes`: the recipes at hand.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "config/locate.h"
#include "systems/recipe.h"

namespace wattle::apps {
namespace {

int list_recipes(bool json) {
  const config::Project home = config::project();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  const auto names = home.some_names(config::Project::Kind::Recipe);
  if (!names) return fail(names.error());
  int exit_code = 0;
  for (const std::string& name : *names) {
    const auto loaded = systems::load_recipe(name, {}, home);
    if (!loaded) {
      exit_code = fail(loaded.error());
      continue;
    }
    const systems::Recipe& recipe = loaded->recipe;
    if (json) {
      all.push_back(
          {{"name", name},
           {"description", recipe.description},
           {"frequency", {{"prefill", recipe.prefill_frequency.policy}, {"decode", recipe.decode_frequency.policy}}},
           {"routing", {{"prefill", recipe.route_prefill.policy}, {"decode", recipe.route_decode.policy}}},
           {"queueing", recipe.queueing.policy},
           {"admission", recipe.admission.policy}});
    } else {
      fmt::print("{:<16} {}\n", name, recipe.description);
    }
  }
  if (json) fmt::print("{}\n", nlohmann::ordered_json{{"recipes", all}}.dump());
  return exit_code;
}

}  // namespace

void add_recipes(Command app, int& exit_code) {
  Command command = app.add_subcommand("recipes", "List the recipes: named compositions of policies");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print one JSON object");
  command.callback([json, &exit_code] { exit_code = list_recipes(*json); });
}

}  // namespace wattle::apps
