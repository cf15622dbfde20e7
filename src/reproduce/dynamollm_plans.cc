// Table VI, and the loss of the hierarchy of controllers against the whole problem (section IV-B).
#include <fmt/core.h>

#include <array>

#include "plan/reshard.h"
#include "plan/sharding_check.h"
#include "reproduce/dynamollm.h"

namespace wattle::reproduce::dynamollm {

Result<Section> resharding() {
  struct Layout {
    const char* name;
    std::vector<int> tps;
  };
  const std::array<Layout, 6> layouts = {
      {{"TP2", {2}}, {"4TP2", {2, 2, 2, 2}}, {"TP4", {4}}, {"TP2+TP4", {2, 4}}, {"2TP4", {4, 4}}, {"TP8", {8}}}};
  constexpr std::array<std::array<double, 6>, 6> kPrinted = {{{0, 4, 2, 2, 2, 1},
                                                              {0, 0, 0, 0, 0, 0},
                                                              {2, 2, 0, 2, 2, 1},
                                                              {0, 2, 0, 0, 1, 1},
                                                              {1, 1, 0, 1, 0, 0},
                                                              {1, 1, 1, 1, 1, 0}}};
  Section section{
      "Table VI",
      "tau: an eighth of the weights over one link. Computed: maximum-weight matching of shards to GPUs, every "
      "pair of GPUs with a link of its own.",
      {},
      {},
      {}};
  int alike = 0;
  for (std::size_t from = 0; from < layouts.size(); ++from) {
    for (std::size_t to = 0; to < layouts.size(); ++to) {
      plan::ReshardProblem problem;
      problem.weight_bytes = 8'000;
      problem.link_bytes_per_s = 1'000.0;  // tau: 1 s
      int next_gpu = 0;
      for (const int tp : layouts[from].tps) {
        plan::PlacedInstance placed;
        for (int g = 0; g < tp; ++g) placed.gpus.push_back(next_gpu++);
        problem.present.push_back(std::move(placed));
      }
      for (const int tp : layouts[to].tps) problem.next.push_back({tp, 0});
      const auto plan = plan::plan_reshard(problem);
      if (!plan) return std::unexpected(plan.error());
      const double tau = plan->transfer_time.seconds();
      alike += tau == kPrinted[from][to] ? 1 : 0;
      section.rows.push_back(
          {fmt::format("tab6/{}_to_{}", layouts[from].name, layouts[to].name), "tau", kPrinted[from][to], tau});
    }
  }
  section.targets.push_back({"tab6_cells_alike", "36 of 36", static_cast<double>(alike), alike == 36});
  return section;
}

Result<Section> hierarchy() {
  const auto scenario = hour_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  const auto table = profile_of(*scenario);
  if (!table) return std::unexpected(table.error());
  const auto rates = load_of(*scenario);
  if (!rates) return std::unexpected(rates.error());
  Section section{
      "Section IV-B, ours",
      "Equation 1 over all nine classes at once against the levels, on the simulated profiles of the hour's "
      "engines: the trace's class loads, at shares of the peak that twelve servers carry. off: servers "
      "without instances are switched off; idle: their GPUs draw what a bare one draws (69 W). loss: how much more "
      "power the levels' plan draws.",
      {},
      {},
      {}};
  constexpr int kNodes = 12;
  for (const double share : {0.2, 0.4, 0.6, 0.8, 1.0}) {
    for (const bool off : {true, false}) {
      std::vector<double> loads = rates->busiest_per_s;
      for (double& load : loads) load *= share;
      const auto problem = problem_of(**table, loads, kNodes * 8, Watts(off ? 0.0 : kBareGpuWatts));
      const auto whole = plan::plan_sharding(problem, {.relative_gap = 1e-3, .time = Span::s(20)});
      const auto levels = [&](bool whole_cluster, bool top_clock) {
        const plan::LevelOptions rule{8, whole_cluster, top_clock};
        return plan::plan_by_levels(problem, rule, {.relative_gap = 1e-3, .time = Span::s(20)});
      };
      const auto published = levels(false, true);
      const auto all_clocks = levels(false, false);
      const auto whole_cluster = levels(true, true);
      const auto ours = levels(true, false);
      for (const auto* one : {&whole, &published, &all_clocks, &whole_cluster, &ours}) {
        if (!*one) return std::unexpected(one->error());
        if (const auto wrong = plan::check_sharding(problem, **one); !wrong.empty()) {
          return std::unexpected(Error{ErrorKind::Failed, "hierarchy", wrong.front()});
        }
      }
      const std::string base = fmt::format("load{:.0f}/{}/", 100 * share, off ? "off" : "idle");
      const auto row = [&](const char* name, const char* unit, double value) {
        section.rows.push_back({base + name, unit, std::nullopt, value});
      };
      const auto loss = [&](const plan::ShardingPlan& one) { return 100.0 * (one.power / whole->power - 1.0); };
      const auto shed = [](const plan::ShardingPlan& one) {
        double sum = 0.0;
        for (const double s : one.shed_per_s) sum += s;
        return sum;
      };
      row("whole_power", "W", whole->power.value());
      row("whole_bound", "W", whole->bound.value());
      row("whole_shed", "requests/s", shed(*whole));
      for (const auto& [name, one] :
           {std::pair("published", &*published), std::pair("pools_at_all_clocks", &*all_clocks),
            std::pair("cluster_solves_whole", &*whole_cluster), std::pair("ours", &*ours)}) {
        section.rows.push_back({base + name + "/loss", "%", std::nullopt, loss(*one)});
        section.rows.push_back({base + name + "/shed", "requests/s", std::nullopt, shed(*one)});
      }
    }
  }
  return section;
}

}  // namespace wattle::reproduce::dynamollm
