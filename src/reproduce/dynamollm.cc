#include "reproduce/dynamollm.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "config/locate.h"
#include "experiment/load_profile.h"
#include "workload/source.h"

namespace wattle::reproduce {

namespace dynamollm {

Classifier nine_classes() { return Classifier({256, 1024}, {100, 350}); }

std::vector<plan::ShardLimits> limits_of(const Classifier& classes) {
  constexpr std::array<std::int64_t, 3> kTtftMs = {250, 400, 2000};
  std::vector<plan::ShardLimits> limits;
  for (std::int32_t c = 0; c < classes.size(); ++c) {
    const auto prompt = static_cast<std::size_t>(c / classes.outputs() * 3 / classes.prompts());
    limits.push_back({Span::ms(kTtftMs[prompt]), Span::ms(100)});
  }
  return limits;
}

Result<config::LoadedScenario> hour_scenario(const std::vector<std::string>& set) {
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return config::load_scenario("dynamollm-hour", *overrides, config::project());
}

Result<std::shared_ptr<const plan::LoadTable>> hour_profile() {
  const auto scenario = hour_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  const Classifier classes = nine_classes();
  const auto requests = experiment::class_requests(*scenario, config::data_dir(), classes, limits_of(classes));
  if (!requests) return std::unexpected(requests.error());
  experiment::LoadProfileRequest request;
  request.progress = [](const std::string& line) { fmt::print(stderr, "profile: {}\n", line); };
  return experiment::load_profile(*scenario, *requests, request);
}

Result<HourLoad> hour_load() {
  const auto table = hour_profile();
  if (!table) return std::unexpected(table.error());
  const auto scenario = hour_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  const auto workload = config::locate_workload(scenario->scenario, config::data_dir());
  if (!workload) return std::unexpected(workload.error());
  const auto source = workload::make_source(*workload, config::data_dir(), config::base_dir(scenario->scenario),
                                            scenario->scenario.seed);
  if (!source) return std::unexpected(source.error());
  const Classifier classes = nine_classes();
  const auto count = static_cast<std::size_t>(classes.size());
  std::vector<std::vector<double>> minutes;
  while (const auto row = (*source)->next()) {
    const auto minute = static_cast<std::size_t>(row->arrival.ns() / Span::s(60).ns());
    if (minute >= minutes.size()) minutes.resize(minute + 1, std::vector<double>(count, 0.0));
    minutes[minute][static_cast<std::size_t>(classes.of(row->prompt_tokens, row->output_tokens).value())] += 1.0 / 60.0;
  }
  std::vector<double> carries;  // of a server
  for (const auto& one : (*table)->classes) carries.push_back(plan::most_load(one, 8, plan::top_clock(one, 8)));
  HourLoad load;
  load.busiest_per_s = load.peak_per_s = load.mean_per_s = std::vector<double>(count, 0.0);
  double most = 0.0;
  for (const auto& minute : minutes) {
    double servers = 0.0;
    for (std::size_t c = 0; c < count; ++c) {
      servers += minute[c] / carries[c];
      load.peak_per_s[c] = std::max(load.peak_per_s[c], minute[c]);
      load.mean_per_s[c] += minute[c] / static_cast<double>(minutes.size());
    }
    if (servers <= most) continue;
    most = servers;
    load.busiest_per_s = minute;
  }
  constexpr double kServers = 12.0;
  load.scale = kServers / most;
  for (auto* rates : {&load.busiest_per_s, &load.peak_per_s, &load.mean_per_s}) {
    for (double& rate : *rates) rate *= load.scale;
  }
  return load;
}

plan::ShardingProblem problem_of(const plan::LoadTable& table, const std::vector<double>& load_per_s, int gpus,
                                 Watts unused_gpu) {
  plan::ShardingProblem problem;
  problem.gpus = gpus;
  problem.unused_gpu = unused_gpu;
  for (std::size_t c = 0; c < table.classes.size(); ++c) {
    const plan::ProfiledClass& one = table.classes[c];
    plan::ShardClass made{one.name, load_per_s[c], one.limits, one.profiles, 1.0};
    if (c + 1 < table.classes.size()) made.load_in_next = plan::load_in(one, table.classes[c + 1]);
    problem.classes.push_back(std::move(made));
  }
  return problem;
}

}  // namespace dynamollm

Evaluation dynamollm_evaluation() {
  static constexpr auto kSections = std::to_array<SectionMaker>({
      {"classes", "Table I: energy by class, TP degree and clock", fixed<dynamollm::by_class>},
      {"loads", "Table II: energy by load", fixed<dynamollm::by_load>},
      {"models", "Table III: energy by model", fixed<dynamollm::by_model>},
      {"resharding", "Table VI: weights moved", fixed<dynamollm::resharding>},
      {"hierarchy", "ours: the levels' plan against the whole problem's", fixed<dynamollm::hierarchy>},
      {"hour", "Figures 7 to 9: six systems on an hour of conversations, and fixed clocks beside them",
       fixed<dynamollm::hour>},
      {"timeline", "Figures 10 and 11: clocks and TP degrees over the hour", fixed<dynamollm::timeline>},
      {"accuracy", "Figure 12: how well output classes are predicted", fixed<dynamollm::accuracy>},
      {"load", "Figure 13: levels of load", fixed<dynamollm::load_levels>},
      {"pools", "Figure 14: numbers of pools", fixed<dynamollm::pool_counts>},
  });
  return {"dynamollm", kSections};
}

}  // namespace wattle::reproduce
