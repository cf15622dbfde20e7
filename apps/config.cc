// `wattle config`: checks a file and prints the resulting configuration; writes the reference pages.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "config/deployment.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/reference.h"
#include "systems/compose.h"
#include "systems/recipe.h"
#include "systems/recipe_options.h"
#include "systems/reference.h"

namespace wattle::apps {
namespace {

struct CheckFlags {
  std::string file;
  std::string recipe;
  std::vector<std::string> set;
  bool json = false;
};

struct ReferenceFlags {
  std::string out;
};

using Kind = config::Project::Kind;

/// A path if the file exists, else the scenario, recipe, GPU or LLM of that name, in this order.
Result<std::string> find_any(const config::Project& home, const std::string& name) {
  std::string known;
  std::error_code none;
  for (const Kind kind : {Kind::Scenario, Kind::Recipe, Kind::Gpu, Kind::Llm}) {
    const auto file = home.find(kind, name, "config check");
    if (file) return file;
    for (const std::string& each : home.names(kind)) known += (known.empty() ? "" : ", ") + each;
  }
  if (std::filesystem::is_directory(name, none)) return bad_input(name, "is a directory; name a file");
  if (name.find('/') != std::string::npos || name.ends_with(".toml")) return bad_input(name, "no such file");
  return bad_input("config check", fmt::format("no file or name \"{}\"; known names: {}", name, known));
}

Result<std::string> check_scenario(const config::Project& home, const std::string& file, const CheckFlags& flags,
                                   const systems::SplitOverrides& overrides) {
  const auto scenario = config::load_scenario(file, overrides.scenario, home);
  if (!scenario) return std::unexpected(scenario.error());
  if (!flags.recipe.empty()) {
    const auto recipe = systems::load_recipe(flags.recipe, overrides.recipe, home);
    if (!recipe) return std::unexpected(recipe.error());
    if (auto ok = systems::check_recipe_on(*recipe, *scenario); !ok) return std::unexpected(ok.error());
  } else if (!overrides.recipe.empty()) {
    return bad_input(overrides.recipe.front().where(), "is a recipe's key; name the recipe with --recipe");
  }
  return config::effective_text(*scenario);
}

Result<std::string> check_recipe_file(const config::Project& home, const std::string& file,
                                      const systems::SplitOverrides& overrides) {
  if (!overrides.scenario.empty()) {
    return bad_input(overrides.scenario.front().where(), "is a scenario's key, and this file is a recipe");
  }
  const auto recipe = systems::load_recipe(file, overrides.recipe, home);
  if (!recipe) return std::unexpected(recipe.error());
  return systems::effective_text(*recipe);
}

const char* name_of(config::FileKind kind) {
  switch (kind) {
    case config::FileKind::Scenario:
      return "scenario";
    case config::FileKind::Recipe:
      return "recipe";
    case config::FileKind::Gpu:
      return "gpu";
    case config::FileKind::Llm:
      return "llm";
    case config::FileKind::Deployment:
      return "deployment";
  }
  return "";
}

/// Runs each process of a deployment with --check; the processes print their errors.
Result<void> check_processes(const config::Deployment& deployment, const std::string& file) {
  std::vector<std::vector<std::string>> processes{{"gateway"}};
  for (const auto& node : deployment.nodes()) processes.push_back({"agent", "--node", node.name});
  if (deployment.has_planner()) processes.push_back({"planner"});
  for (auto& words : processes) {
    const std::string process = fmt::format("wattle {}", fmt::join(words, " "));
    words.insert(words.begin(), "wattle");
    words.insert(words.end(), {"--config", file, "--check"});
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    if (run_wattle(arguments) != 0) return bad_input(file, "`" + process + "` does not start with this");
  }
  return {};
}

/// The effective values of a file of this kind.
Result<std::string> check(const CheckFlags& flags, const std::string& file, config::FileKind kind) {
  const config::Project home = config::project();
  const auto parsed = config::parse_overrides(flags.set);
  if (!parsed) return std::unexpected(parsed.error());
  const auto overrides = systems::split_overrides(*parsed);
  if (!overrides) return std::unexpected(overrides.error());
  if (kind == config::FileKind::Scenario) return check_scenario(home, file, flags, *overrides);
  if (!flags.recipe.empty()) return bad_input("--recipe", "is only for scenario files");
  if (kind == config::FileKind::Recipe) return check_recipe_file(home, file, *overrides);
  if (!flags.set.empty()) return bad_input("--set", "overrides scenarios and recipes, not this file");
  if (kind == config::FileKind::Deployment) {
    const auto deployment = config::Deployment::load(file);
    if (!deployment) return std::unexpected(deployment.error());
    if (auto ok = check_processes(*deployment, file); !ok) return std::unexpected(ok.error());
    return deployment->effective_text();
  }
  if (kind == config::FileKind::Gpu) {
    const auto gpu = config::load_gpu(file);
    if (!gpu) return std::unexpected(gpu.error());
    return config::effective_text(*gpu);
  }
  const auto llm = config::load_llm(file);
  if (!llm) return std::unexpected(llm.error());
  return config::effective_text(*llm);
}

int run_check(const CheckFlags& flags) {
  const auto file = find_any(config::project(), flags.file);
  if (!file) return fail(file.error());
  const auto text = read_file(*file);
  if (!text) return fail(text.error());
  const auto kind = config::kind_of(*text, *file, systems::recipe_keys());
  if (!kind) return fail(kind.error());
  const auto values = check(flags, *file, *kind);
  if (!values) return fail(values.error());
  if (flags.json) {
    const nlohmann::ordered_json out{{"file", *file}, {"kind", name_of(*kind)}, {"ok", true}, {"effective", *values}};
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("# {}: a valid {} file. Values in force:\n{}", *file, name_of(*kind), *values);
  }
  return 0;
}

int run_reference(const ReferenceFlags& flags) {
  for (const config::ReferencePage& page : systems::reference_pages()) {
    if (flags.out.empty()) {
      fmt::print("{}\n", page.text);
      continue;
    }
    std::error_code code;
    std::filesystem::create_directories(flags.out, code);
    if (code) return fail(Error{ErrorKind::External, flags.out, "cannot be created: " + code.message()});
    const std::string path = (std::filesystem::path(flags.out) / (page.name + ".md")).string();
    if (auto ok = write_file(path, page.text); !ok) return fail(ok.error());
    fmt::print("{}\n", path);
  }
  return 0;
}

}  // namespace

void add_config(Command app, int& exit_code) {
  Command command = app.add_subcommand("config", "Check configuration files, or write their reference");
  command.require_subcommand();

  Command check_command = command.add_subcommand("check", "Check a file and print every value in force");
  auto check_flags = std::make_shared<CheckFlags>();
  check_command
      .add_option("FILE", check_flags->file,
                  "Path or name of a scenario, recipe, GPU or LLM; path of a deployment file")
      .required();
  check_command.add_option("--recipe", check_flags->recipe,
                           "Also check that this recipe's clocks exist on the scenario's GPUs");
  check_command.add_option("--set", check_flags->set, "key=value: overrides a key of the file");
  check_command.add_flag("--json", check_flags->json, "Print one JSON object");
  check_command.callback([check_flags, &exit_code] { exit_code = run_check(*check_flags); });

  Command reference_command = command.add_subcommand("reference", "Print the reference of every key");
  auto reference_flags = std::make_shared<ReferenceFlags>();
  reference_command.add_option("-o,--out", reference_flags->out, "Write one page per kind of file into this folder");
  reference_command.callback([reference_flags, &exit_code] { exit_code = run_reference(*reference_flags); });
}

}  // namespace wattle::apps
