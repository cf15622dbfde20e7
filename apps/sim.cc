// `wattle sim`: a scenario under one or more recipes, compared.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/side_by_side.h"
#include "commands.h"
#include "config/locate.h"
#include "experiment/match_attainment.h"
#include "experiment/saturation.h"
#include "experiment/simulate.h"
#include "experiment/telemetry_sources.h"
#include "figures.h"
#include "journal/summary_json.h"
#include "report/saving.h"
#include "systems/compose.h"
#include "systems/recipe.h"

namespace wattle::apps {

namespace {

struct SimFlags {
  std::string scenario;
  std::vector<std::string> recipes;
  std::string seed;
  std::vector<std::string> set;
  std::string out;
  unsigned threads = 1;
  bool json = false;
  bool only = false;
  bool match = false;
  bool by_source = false;
  bool step = false;
  bool check = false;
};

/// The simplest baselines, part of every comparison.
constexpr const char* kFixedClock = "static-sweet";
constexpr const char* kFixedClockScaled = "static-sweet-autoscale";

experiment::SimulateOptions options_for(const SimFlags& flags, const std::string& recipe) {
  experiment::SimulateOptions options;
  options.fast_forward = !flags.step;
  options.check_invariants = flags.check;
  options.data_dir = config::data_dir();
  if (!flags.out.empty()) options.out_dir = (std::filesystem::path(flags.out) / recipe).string();
  return options;
}

/// "-" where less was done, as less energy is no saving then.
std::string saved_text(const journal::RunSummary& run, const journal::RunSummary& baseline, int decimals = 1) {
  return percent(report::saving_stated(run, baseline), decimals);
}

/// Says of those that have no saving why.
void print_undone(const journal::RunSummary& run, const journal::RunSummary& baseline) {
  if (!run.did_less_than(baseline)) return;
  fmt::print(
      "{}: no saving is stated, because it did less: {} requests finished with {} tokens, where {} finished {} with "
      "{}\n",
      run.recipe, run.requests.finished, run.tokens.output, baseline.recipe, baseline.requests.finished,
      baseline.tokens.output);
}

double finished_share(const journal::RunSummary& run) {
  return static_cast<double>(run.requests.finished) / static_cast<double>(run.requests.arrived);
}

void print_table(const std::vector<journal::RunSummary>& runs) {
  const auto& first = runs.front();
  fmt::print("{:<20} {:>10} {:>7} {:>8} {:>7} {:>9} {:>7} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>8}\n",
             "recipe (simulated)", "energy kJ", "saved", "finished", "mean W", "CO2 g", "TTFT", "ITL", "all",
             "TTFT p99", "ITL p99", "clock", "tokens/J", "wall s");
  for (const auto& run : runs) {
    fmt::print("{:<20} {:>10.1f} {:>7} {:>8} {:>7.0f} {:>9.1f} {:>7} {:>7} {:>7} {:>9} {:>9} {:>5.0f} MHz", run.recipe,
               run.energy.total.value() / 1e3, saved_text(run, first), percent(finished_share(run)),
               run.mean_power.value(), run.carbon.value(), percent(run.slo.ttft), percent(run.slo.itl),
               percent(run.slo.all), millis(run.ttft, run.ttft.p99_ms), millis(run.itl, run.itl.p99_ms, 1),
               run.clock_mean_mhz);
    fmt::print(" {:>9} {:>8.3f}\n",
               std::isnan(run.tokens_per_joule) ? "-" : fmt::format("{:.3f}", run.tokens_per_joule), run.sim.wall_s);
  }
  fmt::print("\n{:<20} {:>6} {:>11} {:>13} {:>13}\n", "fairness", "Jain", "violations", "max wait mean",
             "max wait p99");
  for (const auto& run : runs) {
    const auto& fair = run.fairness;
    fmt::print("{:<20} {:>6} {:>11} {:>13} {:>13}\n", run.recipe,
               std::isnan(fair.jain) ? "-" : fmt::format("{:.3f}", fair.jain), percent(fair.violation_rate),
               millis(fair.waiting, fair.waiting.mean_ms), millis(fair.waiting, fair.waiting.p99_ms));
  }
  fmt::print(
      "{} requests, {:.0f} s simulated; saved: energy against {}, both until the later end; TTFT: requests within it; "
      "ITL: token gaps within it; all: requests that finished and kept every objective, ITL by their mean gap\n"
      "Jain: over quartiles of output tokens, tokens delivered within [fairness] window x Lat; violations: not "
      "done within limit x Lat; max wait: the larger of TTFT and the longest gap\n",
      first.requests.arrived, first.sim.virtual_s, first.recipe);
  print_changed(first.requests.clamped_prompts, first.requests.clamped_outputs, first.requests.skipped_failed,
                kWorkloadLimits);
  for (const auto& run : runs) {
    print_undone(run, first);
    if (run.extrapolations > 0) {
      fmt::print("{}: {} predictions were outside the range that predictor_file was measured in\n", run.recipe,
                 run.extrapolations);
    }
    for (const auto& [what, share] : run.unknown_rates()) {
      fmt::print("{}: for {} of the energy the {} is unknown; totals use the last known value, requests have none\n",
                 run.recipe, percent(share), what);
    }
    print_extrapolated(run);
    if (run.tokens.cached_prompt > 0) {
      fmt::print("{}: {:.1f}% of {} prompt tokens were cached\n", run.recipe, run.tokens.cached_share() * 100.0,
                 run.tokens.prompt);
    }
    if (run.misclassified > 0) {
      fmt::print("{}: {} of {} finished requests had answers of another class than they were served as\n", run.recipe,
                 run.misclassified, run.requests.finished);
    }
    const auto lost = run.requests.arrived - run.requests.finished;
    if (lost > 0) {
      fmt::print("{}: {} of {} requests did not finish ({} rejected, {} failed, {} in flight)\n", run.recipe, lost,
                 run.requests.arrived, run.requests.rejected, run.requests.failed, run.requests.in_flight);
    }
  }
}

void print_matched(const std::vector<experiment::Matched>& all) {
  const auto& baseline = all.front().second_half;
  fmt::print("{:<22} {:>10} {:>7} {:>7} {:>7} {:>7} {:>7}  {}\n", "recipe (simulated)", "energy kJ", "saved", "TTFT",
             "ITL", "TBT", "E2E", "reserve");
  for (const auto& one : all) {
    const auto& run = one.second_half;
    std::string reserve;
    for (const auto& [key, value] : one.reserve) reserve += fmt::format("{}={} ", key, value);
    if (!one.kept) reserve += one.settable ? "NOT KEPT at any" : "NOT KEPT, and none to set";
    fmt::print("{:<22} {:>10.1f} {:>7} {:>7} {:>7} {:>7} {:>7}  {}\n", run.recipe, run.energy.total.value() / 1e3,
               saved_text(run, baseline), percent(run.slo.ttft, 2), percent(run.slo.itl, 2), percent(run.slo.tbt, 2),
               percent(run.slo.e2e, 2), reserve);
  }
  for (const auto& one : all) print_undone(one.second_half, baseline);
  fmt::print(
      "second half: {} requests, {:.0f} s simulated; saved: energy against {}; TTFT to E2E: attainment\n"
      "reserve: that with which the first half keeps {}'s attainment, to {:.1f} points, at least energy\n",
      baseline.requests.arrived, baseline.sim.virtual_s, baseline.recipe, baseline.recipe,
      100.0 * experiment::kAttainmentSlack);
}

nlohmann::ordered_json to_json(const experiment::Matched& one) {
  auto run = journal::to_json(one.second_half);
  nlohmann::ordered_json reserve = nlohmann::ordered_json::object();
  for (const auto& [key, value] : one.reserve) reserve[key] = value;
  const auto& first = one.first_half;
  run["match"] = {{"reserve", reserve},
                  {"kept_on_first_half", one.kept},
                  {"first_half",
                   {{"ttft_attainment", first.ttft},
                    {"itl_attainment", first.itl},
                    {"tbt_attainment", first.tbt},
                    {"e2e_attainment", first.e2e},
                    {"attainment", first.all}}}};
  return run;
}

struct Named {
  std::string name;
  systems::LoadedRecipe recipe;
};

/// The named recipes and, if there are several, the fixed clocks. Every --set key has to be valid for a named recipe.
Result<std::vector<Named>> load_recipes(const SimFlags& flags, const std::vector<config::Override>& set) {
  const auto names = flags.recipes.empty() ? std::vector<std::string>{"static-max"} : flags.recipes;
  const auto unfit = names.size() > 1 || flags.match ? systems::Unfit::Ignored : systems::Unfit::Refused;
  std::vector<Named> all;
  for (const auto& name : names) {
    auto recipe = systems::load_recipe(name, set, config::project(), unfit);
    if (!recipe) return std::unexpected(recipe.error());
    all.push_back({name, std::move(*recipe)});
  }
  for (const auto& o : set) {
    if (std::ranges::none_of(all, [&](const auto& one) { return systems::took(one.recipe, o); })) {
      return bad_input(
          o.where(),
          "is an option of policies, of a length.source or of an emergency.mode that none of these recipes chooses");
    }
  }
  if (flags.only || (all.size() < 2 && !flags.match)) return all;
  // The baselines get scenario keys of --set, but no recipe keys.
  for (const char* name : {kFixedClock, kFixedClockScaled}) {
    auto recipe = systems::load_recipe(name, {}, config::project());
    if (!recipe) return std::unexpected(recipe.error());
    const auto& fixed = recipe->recipe;
    if (std::ranges::any_of(all, [&](const auto& one) { return one.recipe.recipe.name == fixed.name; })) continue;
    const bool scaled_alike = std::ranges::any_of(
        all, [&](const auto& one) { return one.recipe.recipe.scaling.policy == fixed.scaling.policy; });
    if (fixed.scales() && !scaled_alike) continue;
    all.push_back({name, std::move(*recipe)});
  }
  return all;
}

/// What one of several recipes is refused for is said before the first has run.
Result<void> check_prepared(const SimFlags& flags, const config::LoadedScenario& scenario,
                            const std::vector<Named>& recipes) {
  if (recipes.size() < 2) return {};
  std::vector<Result<void>> checked(recipes.size());
  side_by_side(flags.threads, recipes.size(), [&](std::size_t i) {
    const auto run = experiment::prepare_run(scenario, recipes[i].recipe, config::data_dir());
    if (!run) checked[i] = std::unexpected(run.error());
  });
  const auto refused = std::ranges::find_if(checked, [](const auto& one) { return !one.has_value(); });
  return refused != checked.end() ? *refused : Result<void>();
}

Result<std::vector<experiment::Matched>> match(const SimFlags& flags, const config::LoadedScenario& scenario,
                                               const std::vector<Named>& recipes,
                                               const std::vector<config::Override>& set) {
  const auto& baseline = recipes.front();
  const auto first = experiment::run_half(scenario, baseline.recipe, workload::Half::First, options_for({}, ""));
  if (!first) return std::unexpected(first.error());
  std::vector<std::optional<Result<experiment::Matched>>> found(recipes.size());
  side_by_side(flags.threads, recipes.size(), [&](std::size_t i) {
    const auto& [name, recipe] = recipes[i];
    found[i] = experiment::match_attainment(scenario, name,
                                            i < std::max<std::size_t>(flags.recipes.size(), 1) ? set : decltype(set){},
                                            first->slo, options_for(flags, recipe.recipe.name));
  });
  std::vector<experiment::Matched> all;
  for (auto& one : found) {
    if (!*one) return std::unexpected(one->error());
    all.push_back(std::move(**one));
  }
  return all;
}

Result<std::vector<journal::RunSummary>> run_all(const SimFlags& flags, const config::LoadedScenario& scenario,
                                                 const std::vector<Named>& recipes) {
  std::vector<std::optional<Result<journal::RunSummary>>> results(recipes.size());
  side_by_side(flags.threads, recipes.size(), [&](std::size_t i) {
    const auto& recipe = recipes[i].recipe;
    results[i] = experiment::run_simulation(scenario, recipe, options_for(flags, recipe.recipe.name));
  });
  std::vector<journal::RunSummary> runs;
  for (auto& result : results) {
    if (!*result) return std::unexpected(result->error());
    runs.push_back(std::move(**result));
  }
  return runs;
}

/// Of every recipe but the first, which the others' saving is against.
Result<nlohmann::ordered_json> by_source(const SimFlags& flags, const config::LoadedScenario& scenario,
                                         const std::vector<Named>& recipes) {
  if (flags.recipes.size() < 2) return bad_input("--by-source", "compares: name a baseline and a recipe with --recipe");
  const auto baseline = experiment::run_simulation(scenario, recipes.front().recipe, options_for({}, ""));
  if (!baseline) return std::unexpected(baseline.error());
  std::vector<std::optional<Result<std::vector<experiment::SourceRun>>>> found(flags.recipes.size());
  side_by_side(flags.threads, flags.recipes.size() - 1, [&](std::size_t i) {
    found[i + 1] = experiment::run_by_source(scenario, recipes[i + 1].recipe, options_for({}, ""));
  });
  auto runs = nlohmann::ordered_json::array();
  for (std::size_t r = 1; r < flags.recipes.size(); ++r) {
    if (!*found[r]) return std::unexpected(found[r]->error());
    if (!flags.json) {
      fmt::print("{:<22} {:<22} {:>10} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9}\n", "recipe (simulated)", "known by",
                 "energy kJ", "saved", "TTFT", "ITL", "all", "TTFT p99", "ITL p99");
    }
    for (const auto& one : **found[r]) {
      const auto& run = one.summary;
      runs.push_back(journal::to_json(run));
      runs.back()["telemetry"] = one.source;
      runs.back()["saved"] = report::saving_stated(run, *baseline);
      if (flags.json) continue;
      fmt::print("{:<22} {:<22} {:>10.1f} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9}\n", run.recipe, one.source,
                 run.energy.total.value() / 1e3, saved_text(run, *baseline, 2), percent(run.slo.ttft, 2),
                 percent(run.slo.itl, 2), percent(run.slo.all, 2), millis(run.ttft, run.ttft.p99_ms),
                 millis(run.itl, run.itl.p99_ms, 1));
      print_undone(run, *baseline);
    }
  }
  return runs;
}

/// What --set says and no recipe of this run reads.
Result<void> check_read(const std::vector<config::Override>& set, const config::LoadedScenario& scenario,
                        const std::vector<Named>& recipes) {
  using systems::Recipe;
  const auto scales = [](const Recipe& recipe) { return recipe.scales(); };
  constexpr const char* kScales = "a recipe whose fleet scales (scaling.policy)";
  const bool measured = scenario.scenario.peak_load > 0.0 || scenario.scenario.trough_load > 0.0;
  struct Keys {
    const char* prefix;
    std::function<bool(const Recipe&)> read;
    const char* needs;
  };
  const Keys all[] = {
      {"measurement.refit_delay_ms",
       [](const Recipe& recipe) { return recipe.predictor.online || recipe.length.source == "trees"; },
       "a recipe whose predictor learns online (predictor.online, or length.source = \"trees\")"},
      {"workload.load_lengths", [&](const Recipe& recipe) { return measured || systems::needs_max_loads(recipe); },
       "workload.peak_load or trough_load, or a recipe that scales by maximum loads"},
      {"spawn.", scales, kScales},
      {"reshard.", scales, kScales},
      {"scaling.period_s", scales, kScales},
      {"scaling.surge", scales, kScales},
      {"scaling.at_once", scales, kScales},
      {"scaling.profiled_together", systems::needs_load_profile, "a recipe whose policies need a load profile"},
      {"scaling.profiled_quantile",
       [](const Recipe& recipe) { return systems::needs_load_profile(recipe) || systems::needs_sites(recipe); },
       "a recipe whose policies need a load profile or rated sites"},
  };
  for (const config::Override& o : set) {
    for (const Keys& keys : all) {
      const auto reads = [&](const Named& one) { return keys.read(one.recipe.recipe); };
      if (!o.key.starts_with(keys.prefix) || std::ranges::any_of(recipes, reads)) continue;
      return bad_input(o.where(), fmt::format("{} does nothing without {}", o.key, keys.needs));
    }
  }
  return {};
}

/// Each run's folder is called after its recipe.
Result<void> check_folders(const SimFlags& flags, const std::vector<Named>& recipes) {
  if (flags.out.empty()) return {};
  std::set<std::string> taken;
  for (const auto& [given, recipe] : recipes) {
    const std::string& name = recipe.recipe.name;
    if (taken.insert(name).second) continue;
    return bad_input("--out", fmt::format("two of the recipes are called {} and would be written to one folder; give "
                                          "{} another name",
                                          name, given));
  }
  return {};
}

/// A run ends with its last request: faults scheduled for later did not happen.
void say_what_did_not_happen(const config::LoadedScenario& scenario, const journal::RunSummary& run) {
  const auto& faults = scenario.scenario.faults;
  for (std::size_t f = 0; f < faults.size(); ++f) {
    if (faults[f].at.seconds() <= run.sim.virtual_s) continue;
    fmt::print(stderr, "wattle: {}: the fault at {:g} s did not happen: the run of {} ended at {:.1f} s\n",
               scenario.origins.of(fmt::format("fault.{}", f)), faults[f].at.seconds(), run.recipe, run.sim.virtual_s);
  }
}

int run(const SimFlags& flags) {
  auto set = config::parse_overrides(flags.set);
  if (!set) return fail(set.error());
  if (!flags.seed.empty()) set->push_back({"seed", flags.seed, "--seed"});
  const auto overrides = systems::split_overrides(*set);
  if (!overrides) return fail(overrides.error());
  const auto stated = config::load_scenario(flags.scenario, overrides->scenario, config::project());
  if (!stated) return fail(stated.error());
  const auto recipes = load_recipes(flags, overrides->recipe);
  if (!recipes) return fail(recipes.error());
  if (auto ok = check_folders(flags, *recipes); !ok) return fail(ok.error());
  if (auto ok = check_read(*set, *stated, *recipes); !ok) return fail(ok.error());
  const auto asks =
      std::ranges::find_if(*recipes, [](const auto& one) { return systems::needs_max_loads(one.recipe.recipe); });
  const bool asked = asks != recipes->end();
  // Maximum loads depend only on the scenario, so they are measured once for all recipes.
  const auto scenario = experiment::with_loads(*stated, asked, config::data_dir());
  if (!scenario) {
    return fail(asked ? systems::of_recipe(scenario.error(), asks->recipe.recipe) : scenario.error());
  }

  if (auto ok = check_prepared(flags, *scenario, *recipes); !ok) return fail(ok.error());

  nlohmann::ordered_json object;
  object["scenario"] = scenario->scenario.name;
  object["seed"] = scenario->scenario.seed;
  object["simulated"] = true;
  object["runs"] = nlohmann::ordered_json::array();
  if (flags.match) {
    const auto matched = match(flags, *scenario, *recipes, overrides->recipe);
    if (!matched) return fail(matched.error());
    for (const auto& one : *matched) {
      object["runs"].push_back(to_json(one));
      object["runs"].back()["saved"] = report::saving_stated(one.second_half, matched->front().second_half);
    }
    if (!flags.json) print_matched(*matched);
  } else if (flags.by_source) {
    auto runs = by_source(flags, *scenario, *recipes);
    if (!runs) return fail(runs.error());
    object["runs"] = std::move(*runs);
  } else {
    const auto runs = run_all(flags, *scenario, *recipes);
    if (!runs) return fail(runs.error());
    for (const auto& summary : *runs) {
      say_what_did_not_happen(*scenario, summary);
      object["runs"].push_back(journal::to_json(summary));
      object["runs"].back()["saved"] = report::saving_stated(summary, runs->front());
    }
    if (!flags.json) print_table(*runs);
  }
  if (flags.json) fmt::print("{}\n", object.dump(1));
  return 0;
}

}  // namespace

void add_sim(Command app, int& exit_code) {
  auto flags = std::make_shared<SimFlags>();
  Command command = app.add_subcommand("sim", "Run a scenario under one or more recipes in the simulator, compare");
  command.add_option("scenario", flags->scenario, "name or file of a scenario").required();
  command.add_option("--recipe", flags->recipes, "name or file of a recipe; repeat to compare (default static-max)");
  command.add_option("--seed", flags->seed, "random seed, in place of the scenario's");
  command.add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  const Flag out =
      command.add_option("-o,--out", flags->out, "folder for run.json, journal, CSVs and Chrome trace, one per recipe");
  command.add_option("--threads", flags->threads, "number of recipes that run in parallel").check(range(1U, 256U));
  command.add_flag("--only", flags->only,
                   "run only the named recipes; without it, a comparison adds the fixed energy-optimal clock");
  const Flag match =
      command.add_flag("--match-attainment", flags->match,
                       "give each recipe the reserve (a margin, or a higher fixed clock) with which it matches the "
                       "first recipe's attainment on the first half of the workload at least energy, and report the "
                       "second half");
  command
      .add_flag("--by-source", flags->by_source,
                "for each source of telemetry, report what each recipe saves against the first, and its "
                "attainment")
      .excludes(match)
      .excludes(out);
  command.add_flag("--json", flags->json, "one JSON object on stdout");
  command.add_flag("--step", flags->step, "simulate every iteration, without fast-forward; same result, slower");
  command.add_flag("--check", flags->check, "check every invariant after every event (slow)");
  command.callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace wattle::apps
