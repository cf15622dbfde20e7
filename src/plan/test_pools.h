#pragma once
// Small problems for the pool planner's tests.
#include <string>
#include <vector>

#include "plan/pools.h"

namespace wattle::plan::testing {

struct SmallMode {
  std::vector<int> gpus;
  double peak_w, idle_w, max_per_s;
};

/// One type "SS" with the demand given, `modes` by any kinds, sites of (GPUs by kind, intensity in g/kWh).
inline PoolsProblem small_problem(const std::vector<SmallMode>& modes, double demand_per_s,
                                  const std::vector<std::pair<std::vector<int>, double>>& sites) {
  PoolsProblem problem;
  for (std::size_t c = 0; c < sites[0].first.size(); ++c) problem.kinds.push_back("K" + std::to_string(c));
  PoolType type;
  type.name = "SS";
  type.demand_per_s = {demand_per_s};
  for (std::size_t m = 0; m < modes.size(); ++m) {
    problem.modes.push_back({"M" + std::to_string(m), modes[m].gpus});
    WorkerRating rating;
    rating.peak = Watts(modes[m].peak_w);
    rating.idle = Watts(modes[m].idle_w);
    rating.max_per_s = modes[m].max_per_s;
    type.ratings.emplace_back(rating);
  }
  problem.partitions.push_back({"one", {type}});
  for (const auto& [gpus, intensity] : sites) {
    PoolSite site;
    site.name = "S" + std::to_string(problem.sites.size());
    site.gpus = gpus;
    site.intensity = {GramsPerKwh(intensity)};
    problem.sites.push_back(site);
  }
  return problem;
}

inline int workers_in(const PoolsPlan& plan) {
  int workers = 0;
  for (const WorkerPool& pool : plan.pools) workers += pool.workers;
  return workers;
}

}  // namespace wattle::plan::testing
