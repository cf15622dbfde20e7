// `wattle sim`: a scenario under one or more recipes, compared.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "commands.h"
#include "config/locate.h"
#include "experiment/saturation.h"
#include "experiment/simulate.h"
#include "journal/summary_json.h"
#include "systems/recipe.h"

namespace wattle::apps {

namespace {

struct SimFlags {
  std::string scenario;
  std::vector<std::string> recipes;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> set;
  std::string out;
  unsigned threads = 1;
  bool json = false;
  bool step = false;
  bool check = false;
};

/// One recipe's run, with its own copy of everything, so that runs may go side by side.
Result<journal::RunSummary> run_one(const SimFlags& flags, const config::LoadedScenario& scenario,
                                    const systems::LoadedRecipe& recipe) {
  experiment::SimulateOptions options;
  options.fast_forward = !flags.step;
  options.check_invariants = flags.check;
  options.data_dir = config::data_dir();
  if (!flags.out.empty()) options.out_dir = (std::filesystem::path(flags.out) / recipe.recipe.name).string();
  return experiment::run_simulation(scenario, recipe, options);
}

void print_table(const std::vector<journal::RunSummary>& runs) {
  fmt::print("{:<20} {:>10} {:>7} {:>7} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "recipe (simulated)",
             "energy kJ", "saved", "mean W", "CO2 g", "TTFT", "ITL", "TTFT p99", "ITL p99", "clock", "tokens/J",
             "wall s");
  for (const auto& run : runs) {
    const double saved = 1.0 - run.energy.total.value() / runs.front().energy.total.value();
    fmt::print("{:<20} {:>10.1f} {:>6.1f}% {:>7.0f} {:>9.1f} {:>6.1f}% {:>6.1f}% {:>6.0f} ms {:>6.1f} ms {:>5.0f} MHz",
               run.recipe, run.energy.total.value() / 1e3, saved * 100.0, run.mean_power.value(), run.carbon.value(),
               run.slo.ttft * 100.0, run.slo.itl * 100.0, run.ttft.p99_ms, run.itl.p99_ms, run.clock_mean_mhz);
    fmt::print(" {:>9.3f} {:>8.3f}\n", run.tokens_per_joule, run.sim.wall_s);
  }
  fmt::print("\n{:<20} {:>6} {:>11} {:>13} {:>13}\n", "fairness", "Jain", "violations", "max wait mean",
             "max wait p99");
  for (const auto& run : runs) {
    fmt::print("{:<20} {:>6.3f} {:>10.1f}% {:>10.0f} ms {:>10.0f} ms\n", run.recipe, run.fairness.jain,
               run.fairness.violation_rate * 100.0, run.fairness.waiting.mean_ms, run.fairness.waiting.p99_ms);
  }
  const auto& first = runs.front();
  fmt::print(
      "{} requests, {:.0f} s simulated; saved: energy against {}; TTFT, ITL: attainment\n"
      "Jain: over quartiles of output tokens, tokens delivered within [fairness] window x Lat; violations: not "
      "done within limit x Lat; max wait: the larger of TTFT and the longest gap\n",
      first.requests.arrived, first.sim.virtual_s, first.recipe);
  for (const auto& run : runs) {
    if (run.extrapolations > 0) {
      fmt::print("{}: {} predictions were asked for outside what predictor_file was measured on\n", run.recipe,
                 run.extrapolations);
    }
    for (const std::string& sentence : run.extrapolated) fmt::print("{}: extrapolated: {}\n", run.recipe, sentence);
    const auto lost = run.requests.arrived - run.requests.finished;
    if (lost > 0) {
      fmt::print("{}: {} of {} requests did not finish ({} rejected, {} failed, {} in flight)\n", run.recipe, lost,
                 run.requests.arrived, run.requests.rejected, run.requests.failed, run.requests.in_flight);
    }
  }
}

int run(const SimFlags& flags) {
  const auto set = config::parse_overrides(flags.set);
  if (!set) return fail(set.error());
  const auto overrides = systems::split_overrides(*set);
  if (!overrides) return fail(overrides.error());
  auto stated = config::load_scenario(flags.scenario, overrides->scenario, config::project());
  if (!stated) return fail(stated.error());
  if (flags.seed) stated->scenario.seed = *flags.seed;
  std::vector<systems::LoadedRecipe> recipes;
  bool scales = false;
  const auto names = flags.recipes.empty() ? std::vector<std::string>{"static-max"} : flags.recipes;
  const auto unfit = names.size() > 1 ? systems::Unfit::Ignored : systems::Unfit::Refused;
  for (const auto& name : names) {
    auto recipe = systems::load_recipe(name, overrides->recipe, config::project(), unfit);
    if (!recipe) return fail(recipe.error());
    scales = scales || recipe->recipe.scales();
    recipes.push_back(std::move(*recipe));
  }
  for (const auto& o : overrides->recipe) {
    if (std::ranges::none_of(recipes, [&](const auto& recipe) { return systems::took(recipe, o); })) {
      return fail(bad_input(o.where(), "is an option of policies that none of these recipes chooses").error());
    }
  }
  // Maximum loads are the scenario's: measured once, whatever number of recipes asks for them.
  const auto scenario = experiment::with_loads(*stated, scales, config::data_dir());
  if (!scenario) return fail(scenario.error());

  std::vector<std::optional<Result<journal::RunSummary>>> results(recipes.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < recipes.size(); i = next++) results[i] = run_one(flags, *scenario, recipes[i]);
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < std::min<std::size_t>(flags.threads, recipes.size()); ++t) threads.emplace_back(work);
    work();
  }
  std::vector<journal::RunSummary> runs;
  for (auto& result : results) {
    if (!*result) return fail(result->error());
    runs.push_back(std::move(**result));
  }

  if (!flags.json) {
    print_table(runs);
    return 0;
  }
  nlohmann::ordered_json object;
  object["scenario"] = scenario->scenario.name;
  object["seed"] = scenario->scenario.seed;
  object["simulated"] = true;
  object["runs"] = nlohmann::ordered_json::array();
  for (const auto& summary : runs) object["runs"].push_back(journal::to_json(summary));
  fmt::print("{}\n", object.dump(1));
  return 0;
}

}  // namespace

void add_sim(Command app, int& exit_code) {
  auto flags = std::make_shared<SimFlags>();
  Command command = app.add_subcommand("sim", "run a scenario under one or more recipes in the simulator, compare");
  command.add_option("scenario", flags->scenario, "name or file of a scenario").required();
  command.add_option("--recipe", flags->recipes, "name or file of a recipe; repeat to compare (default static-max)");
  command.add_option("--seed", flags->seed, "instead of the scenario's");
  command.add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  command.add_option("-o,--out", flags->out, "folder for run.json, journal, CSVs and Chrome trace, one per recipe");
  command.add_option("--threads", flags->threads, "recipes run side by side").check(range(1U, 256U));
  command.add_flag("--json", flags->json, "one JSON object on stdout");
  command.add_flag("--step", flags->step, "run every iteration on its own; same result, slower");
  command.add_flag("--check", flags->check, "check every invariant after every event (slow)");
  command.callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace wattle::apps
