#include "reproduce/throttllem.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "config/locate.h"

namespace wattle::reproduce {

namespace throttllem {

Result<experiment::MaxLoad> max_load(const Engine& engine, const std::string& lengths) {
  static std::map<std::pair<std::string_view, std::string>, experiment::MaxLoad> known;
  const std::pair key(engine.name, lengths);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  const auto scenario = config::load_scenario(engine.scenario, {{"workload.load_lengths", lengths}}, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  const auto measured = experiment::measure_max_load(*scenario, 0, config::data_dir());
  if (measured) known.emplace(key, *measured);
  return measured;
}

Result<config::LoadedScenario> right_scaled(const Engine& engine, double load, const std::vector<std::string>& more) {
  const auto own = max_load(engine);
  if (!own) return std::unexpected(own.error());
  std::vector<std::string> set{fmt::format("workload.rate_scale={:.6f}", load * own->rate_per_s / kTracePeakPerS),
                               fmt::format("slo.e2e_ms={:.3f}", own->e2e_p99.millis())};
  set.insert(set.end(), more.begin(), more.end());
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return config::load_scenario(engine.scenario, *overrides, config::project());
}

Result<journal::RunSummary> run(const config::LoadedScenario& scenario, const char* recipe,
                                const std::vector<std::string>& set) {
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto loaded = systems::load_recipe(recipe, *overrides, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  experiment::SimulateOptions options;
  options.data_dir = config::data_dir();
  return experiment::run_simulation(scenario, *loaded, options);
}

std::vector<std::string> with_error(double p95) {
  return {fmt::format("length.error_p95={}", p95), fmt::format("admission.length_inflation={}", p95)};
}

double mean_batch(const journal::RunSummary& summary) {
  return static_cast<double>(summary.tokens.output) /
         static_cast<double>(std::max<std::int64_t>(summary.sim.iterations, 1));
}

double percent_saved(double ours, double baseline) { return 100.0 * (1.0 - ours / baseline); }

}  // namespace throttllem

Evaluation throttllem_evaluation() {
  static constexpr auto kSections = std::to_array<SectionMaker>({
      {"sweet-spot", "Figure 2: one batch at every clock", &fixed<&throttllem::sweet_spot>},
      {"saturation", "Table II: maximum load and objective of each engine", &fixed<&throttllem::saturation>},
      {"model", "Table III: the performance model's errors", &fixed<&throttllem::model>},
      {"projection", "Figure 7: projected batch and KV cache against what happened", &fixed<&throttllem::projection>},
      {"throttling", "Figures 8 and 9: five engines, three error levels, without autoscaling",
       &fixed<&throttllem::throttling>},
      {"slack", "ours: little load, no objective", &fixed<&throttllem::slack>},
      {"loads", "ours: nearer to full", &fixed<&throttllem::loads>},
      {"lengths", "ours: every length predictor", &fixed<&throttllem::lengths>},
      {"autoscaling", "Figures 10 and 12: engines of one, two and four GPUs", &fixed<&throttllem::autoscaling>},
      {"windows", "ours: the length of the trace's differently scaled areas", &fixed<&throttllem::rate_windows>},
      {"runtime", "Figure 11: rate, engines, clock, power and latency over time", &fixed<&throttllem::runtime>},
      {"load-sweep", "Figure 13: 10 to 100 % of the load", &fixed<&throttllem::load_sweep>},
      {"retail", "Figure 14: against a ReTail-like baseline", &fixed<&throttllem::retail>},
      {"mixtral", "Figure 15: Mixtral 8x7B on eight A10G", &fixed<&throttllem::mixtral>},
  });
  return {"throttllem", kSections};
}

}  // namespace wattle::reproduce
