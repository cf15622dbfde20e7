#include "engine_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "config/engine_arguments.h"
#include "config/records.h"
#include "experiment/live_fleet.h"
#include "systems/recipe.h"

namespace wattle::apps {
namespace {

/// The unit of an option for its help, unless the flag's name has it (-ms, -gb-per-gpu) or the text names what is
/// counted.
std::string unit_beside(const config::OptionSpec& option) {
  std::string symbol = option.unit;
  std::ranges::transform(symbol, symbol.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool counts = symbol.size() > 2;
  const bool said =
      counts ? option.description.contains(symbol) : (config::engine_flag(option) + "-").contains("-" + symbol + "-");
  return said ? "" : fmt::format(" ({})", option.unit);
}

}  // namespace

void add_engine_flags(Command command, engine::EngineOptions& options) {
  for (const auto& option : config::engine_options()) {
    const auto take = [&option, &options](const std::string& text) {
      static_cast<void>(config::set_from_flag(option, text, options));  // `problem` has passed it
    };
    const auto problem = [&option](const std::string& text) {
      engine::EngineOptions scratch;
      const auto set = config::set_from_flag(option, text, scratch);
      return set ? "" : set.error().what;
    };
    command.add_text_option(config::engine_flag(option), take, problem, option.description + unit_beside(option))
        .default_str(config::flag_text(option.get(options)));
  }
}

void add_fleet_flags(Command command, experiment::LiveFleetOptions& o) {
  command.add_option("--recipe", o.recipe, "Recipe to run, by name or file (recipes/)").capture_default_str();
  command.add_option("--set", o.overrides, "key=value: overrides a recipe key");
  command.add_option("--gpu", o.gpu, "The kind of GPU on which the engines run (specs/gpus)").capture_default_str();
  command.add_option("--llm", o.llm, "The model they serve (specs/llms)").capture_default_str();
  add_engine_flags(command, o.engine);
}

std::map<std::string, std::string> fleet_facts(const experiment::LiveFleetOptions& o, const systems::Recipe& recipe,
                                               const ClockObjectives& objectives) {
  std::map<std::string, std::string> facts{{"gpu", o.gpu}, {"llm", o.llm}};
  if (!recipe.name.empty()) {
    facts["recipe"] = recipe.name;
    std::string set;
    for (const auto& one : o.overrides) set += (set.empty() ? "" : " ") + one;
    facts["set"] = set;
  }
  facts["engine"] = fmt::format("{}", fmt::join(config::engine_arguments(o.engine), " "));
  for (const auto& [name, ms] : {std::pair{"ttft_ms", objectives.ttft_ms},
                                 {"itl_ms", objectives.itl_ms},
                                 {"tbt_ms", objectives.tbt_ms},
                                 {"e2e_ms", objectives.e2e_ms}}) {
    if (ms > 0) facts[name] = fmt::format("{}", ms);
  }
  return facts;
}

void add_config_flag(Command command, std::string& file) {
  command.add_option("--config", file,
                     "Deployment file (wattle.toml) for flags that are not given (docs/deployment.md)");
}

void add_check_flag(Command command, bool& check) {
  command.add_flag("--check", check, "Check the flags and the --config file, report what is wrong, and exit");
}

}  // namespace wattle::apps
