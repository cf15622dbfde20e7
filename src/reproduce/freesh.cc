#include "reproduce/freesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "plan/pools_check.h"

namespace wattle::reproduce {

namespace freesh {

Result<PublishedFile> released_file(const char* name, const char* like) {
  constexpr const char* kFolder = "LLM_Serving_FREESH/";
  const std::string released = fmt::format("{}{}.csv", kFolder, name);
  const auto others = published_names(fmt::format("{}{}.csv", kFolder, like).c_str());
  const bool there = others.empty() || std::ranges::find(others, released) != others.end();
  if (!there && others.size() > 1) {
    return bad_input(released, fmt::format("is not there, and several may stand for it: {}", fmt::join(others, ", ")));
  }
  return published_file(there ? released.c_str() : others.front().c_str());
}

Result<plan::PoolsData> load_data() {
  constexpr std::pair<const char*, const char*> kFiles[] = {{"pool_profile_llama3_70b", "pool_profile_*"},
                                                            {"site_capacity", "site_capacity*"},
                                                            {"slo_limits", "slo_limits*"},
                                                            {"marginal_emission_3sites", "marginal_emission_*"}};
  std::vector<PublishedFile> texts;
  for (const auto& [name, like] : kFiles) {
    auto text = released_file(name, like);
    if (!text) return std::unexpected(text.error());
    texts.push_back(std::move(*text));
  }
  for (const auto& name : published_names("LLM_Serving_FREESH/peak_qps_partition*.csv")) {
    auto text = published_file(name.c_str());
    if (!text) return std::unexpected(text.error());
    texts.push_back(std::move(*text));
  }
  const auto named = [&](std::size_t i) { return plan::NamedText{texts[i].path, texts[i].text}; };
  plan::PoolsTexts all{named(0), named(1), named(2), named(3), {}, {}};
  for (std::size_t i = std::size(kFiles); i < texts.size(); ++i) all.demand.push_back(named(i));
  return plan::PoolsData::parse(all, kIdleShare);
}

Joules Day::energy() const {
  Joules sum;
  for (const auto& plan : plans) sum += plan.found() ? plan.energy : Joules();
  return sum;
}

GramsCo2 Day::carbon() const {
  GramsCo2 sum;
  for (const auto& plan : plans) sum += plan.found() ? plan.carbon : GramsCo2();
  return sum;
}

double Day::count(plan::PoolsStatus status) const {
  return static_cast<double>(std::ranges::count(plans, status, &plan::PoolsPlan::status));
}

double Day::shed_per_s() const {
  double sum = 0.0;
  for (const auto& plan : plans) sum += std::accumulate(plan.shed_per_s.begin(), plan.shed_per_s.end(), 0.0);
  return sum / static_cast<double>(plans.size());
}

double Day::started() const {
  double sum = 0.0;
  for (const auto& plan : plans) sum += plan.started;
  return sum;
}

Result<Day> plan_windows(const plan::PoolsData& data, const plan::PoolsOptions& options,
                         const std::vector<std::size_t>& windows, const Change& change, double beta) {
  Day day;
  const plan::PoolsPlan* previous = nullptr;
  day.plans.reserve(windows.size());  // `previous` points into it
  for (const std::size_t w : windows) {
    auto problem = data.window(w * kSlotsPerWindow, kSlotsPerWindow, beta);
    if (change) change(problem);
    auto plan = plan::plan_pools(problem, options, previous);
    if (!plan) return std::unexpected(plan.error());
    const auto faults = plan->found() ? plan::check_pools(problem, options, *plan, previous)
                                      : decltype(plan::check_pools(problem, options, *plan, previous)){};
    if (!faults.empty()) {
      return std::unexpected(
          Error{ErrorKind::Failed, fmt::format("window {}", w), fmt::format("{}", fmt::join(faults, "; "))});
    }
    day.problems.push_back(std::move(problem));
    day.plans.push_back(std::move(*plan));
    if (day.plans.back().found()) previous = &day.plans.back();
  }
  return day;
}

Result<Day> plan_day(const plan::PoolsData& data, const plan::PoolsOptions& options, const Change& change,
                     double beta) {
  std::vector<std::size_t> all(data.end_window(kSlotsPerWindow) - data.first_window(kSlotsPerWindow));
  std::iota(all.begin(), all.end(), data.first_window(kSlotsPerWindow));
  return plan_windows(data, options, all, change, beta);
}

plan::PoolsOptions published_options(bool carbon) {
  plan::PoolsOptions options;
  options.formulation = plan::PoolsFormulation::Published;
  options.objective = {.carbon = carbon ? 1.0 : 0.0, .energy = carbon ? 0.0 : 1.0, .cost = 0.0};
  return options;
}

plan::PoolsOptions wattle_options(bool carbon) {
  plan::PoolsOptions options = published_options(carbon);
  options.formulation = plan::PoolsFormulation::Wattle;
  return options;
}

Change only_partition(std::size_t s) {
  return [s](plan::PoolsProblem& problem) {
    plan::RequestPartition kept = std::move(problem.partitions[s]);
    problem.partitions.clear();
    problem.partitions.push_back(std::move(kept));
  };
}

Change only_modes(std::vector<std::size_t> modes) {
  return [modes = std::move(modes)](plan::PoolsProblem& problem) {
    for (auto& partition : problem.partitions) {
      for (auto& type : partition.types) {
        for (std::size_t m = 0; m < type.ratings.size(); ++m) {
          if (std::ranges::find(modes, m) == modes.end()) type.ratings[m].reset();
        }
      }
    }
  };
}

Change cleanest_site(const plan::PoolsOptions& options) {
  return [options](plan::PoolsProblem& problem) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t n = 0; n < problem.sites.size(); ++n) {
      double mean = 0.0;
      for (const auto g : problem.sites[n].intensity) mean += g.value();
      order.emplace_back(mean, n);
    }
    std::ranges::sort(order);
    const auto carries = [&](const std::vector<std::size_t>& sites) {
      plan::PoolsProblem some = problem;
      for (std::size_t k = 0; k < some.sites.size(); ++k) {
        if (std::ranges::find(sites, k) == sites.end()) std::ranges::fill(some.sites[k].gpus, 0);
      }
      const auto plan = plan::plan_pools(some, options);
      const bool all = plan && plan->status == plan::PoolsStatus::Planned;
      if (all) problem = std::move(some);
      return all;
    };
    for (const auto& [mean, n] : order) {
      if (carries({n})) return;
    }
    std::vector<std::size_t> together;
    for (const auto& [mean, n] : order) {
      together.push_back(n);
      if (together.size() > 1 && carries(together)) return;
    }
  };
}

void add(Section& section, std::string id, const char* unit, std::optional<double> published, double ours) {
  section.rows.push_back({std::move(id), unit, published, ours});
}

}  // namespace freesh

Evaluation freesh_evaluation() {
  static constexpr auto kSections = std::to_array<SectionMaker>({
      {"day", "Figure 12 and Table 3: a day of plans, carbon against energy", &fixed<&freesh::day>},
      {"windows", "every optimum of the released windows", &fixed<&freesh::windows>},
      {"sensitivity", "Figures 10 and 11: forecast errors, GPUs, carbon errors, feasibility, solver time",
       &fixed<&freesh::sensitivity>},
      {"queues", "Table 5, Figures 4, 17 and 18: four disciplines, four types, windows", &fixed<&freesh::queues>},
      {"miad", "Table 10, Figures 16 and 20: MIAD's parameters on one A100-40G", &fixed<&freesh::miad>},
      {"snapshots", "Figure 16: four minutes of MIAD's clock", &fixed<&freesh::snapshots>},
      {"hour", "Figure 6: episodes E1 and E2 with ablations and the honest baseline", &fixed<&freesh::hour>},
      {"loads", "half, normal and double load, least laxity against first come first served", &fixed<&freesh::loads>},
      {"classifier", "accuracy of the length classifier", &fixed<&freesh::classifier>},
      {"overheads", "Table 6: what deciding costs", &fixed<&freesh::overheads>},
  });
  return {"freesh", kSections};
}

}  // namespace wattle::reproduce
