#pragma once
// What the pool planner's integer program is written in: the worth of joules, demands, and how many GPUs may be used.
// Internal to the planner.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/pools_problem.h"

namespace wattle::plan {

/// What a joule is worth, by site and slot, in units of the objective.
class JouleWeights {
 public:
  JouleWeights(const PoolsProblem& problem, const PoolsObjective& objective);
  /// As it is; may be negative.
  [[nodiscard]] double signed_weight(std::size_t site, std::size_t slot) const { return weight_[site][slot]; }
  /// Never below a thousandth of the mean magnitude: what a joule costs that must not earn anything. The floor breaks
  /// ties towards less energy where electricity is free or better.
  [[nodiscard]] double cost_weight(std::size_t site, std::size_t slot) const;
  /// What a request earns where a joule has negative weight (else 0; never above): so many joules of it as its type's
  /// leanest mode takes, whichever mode serves it. All requests of a slot earn the same together in every partition, as
  /// many joules as the leanest partition takes for them. So load moves there, but waste earns nothing.
  [[nodiscard]] double credit(std::size_t site, std::size_t slot, std::size_t partition, std::size_t type) const {
    return leanest_[partition][type] * share_[partition][slot] * std::min(0.0, weight_[site][slot]);
  }

 private:
  void set_leanest(const PoolsProblem& problem);

  std::vector<std::vector<double>> weight_;
  std::vector<std::vector<double>> leanest_;  ///< J a request, by partition and type; 0: no mode serves it
  std::vector<std::vector<double>> share_;    ///< of those, what is earned, by partition and slot
  double floor_ = 0.0;
};

/// May workers of this mode serve this type within its latency limits?
[[nodiscard]] bool within_limits(const PoolType& type, const WorkerRating& rating);

/// What a request takes beyond idle power.
[[nodiscard]] inline double joules_per_request(const WorkerRating& rating) {
  return (rating.peak - rating.idle).value() / rating.max_per_s;
}

/// Demand of a type over the window, requests per second.
[[nodiscard]] double mean_demand(const PoolType& type);
[[nodiscard]] double peak_demand(const PoolType& type);

/// At a site, workers' engines whose GPUs of a kind are a multiple of `size` have together no more than `gpus` of them:
/// what its nodes hold in pieces of that size. Where sizes divide one another, as TP degrees do, who keeps all limits
/// fits.
struct GpuLimit {
  std::size_t kind = 0;
  int size = 1;  ///< 1: every worker, all GPUs
  int gpus = 0;
  /// GPUs that one worker of the mode takes of it.
  [[nodiscard]] int needs(const WorkerMode& mode) const {
    int all = 0;
    mode.each_block(kind, [&](int together) { all += together % size == 0 ? together : 0; });
    return all;
  }
};
/// One for all GPUs of each kind, and those of nodes that do not follow from it for whole workers.
[[nodiscard]] std::vector<GpuLimit> gpu_limits(const PoolsProblem& problem, const PoolSite& site);

}  // namespace wattle::plan
