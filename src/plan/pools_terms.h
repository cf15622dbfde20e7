#pragma once
// Terms of the pool planner's integer program: the value of joules, demands, and limits on GPUs. Internal to the
// planner.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "plan/pools_problem.h"

namespace wattle::plan {

/// The value of a joule, by site and slot, in units of the objective.
class JouleWeights {
 public:
  JouleWeights(const PoolsProblem& problem, const PoolsObjective& objective);
  /// The actual value; may be negative.
  [[nodiscard]] double signed_weight(std::size_t site, std::size_t slot) const { return weight_[site][slot]; }
  /// At least a thousandth of the mean magnitude: the cost of joules that must not earn anything. The lower bound
  /// breaks ties towards less energy where electricity is free or better.
  [[nodiscard]] double cost_weight(std::size_t site, std::size_t slot) const;
  /// What a request earns where a joule has negative value (otherwise 0; never positive): the joules of its type's most
  /// efficient mode, whichever mode serves it. In each slot all requests together earn the same in every partition: the
  /// joules that the most efficient partition needs. So load moves to such sites, but waste earns nothing.
  [[nodiscard]] double credit(std::size_t site, std::size_t slot, std::size_t partition, std::size_t type) const {
    return leanest_[partition][type] * share_[partition][slot] * std::min(0.0, weight_[site][slot]);
  }

 private:
  void set_leanest(const PoolsProblem& problem);

  std::vector<std::vector<double>> weight_;
  std::vector<std::vector<double>> leanest_;  ///< J per request, by partition and type; 0: no mode serves it
  std::vector<std::vector<double>> share_;    ///< of those, the share that is earned, by partition and slot
  double floor_ = 0.0;
};

/// Whether workers of this mode may serve this type within its latency limits.
[[nodiscard]] bool within_limits(const PoolType& type, const WorkerRating& rating);

/// Energy per request beyond idle power, J.
[[nodiscard]] inline double joules_per_request(const WorkerRating& rating) {
  return (rating.peak - rating.idle).value() / rating.max_per_s;
}

/// Mean demand of a type over the window, requests per second.
[[nodiscard]] double mean_demand(const PoolType& type);
[[nodiscard]] double peak_demand(const PoolType& type);

/// At a site, all engines whose number of GPUs of a kind is a multiple of `size` have at most `gpus` of them in total:
/// what its nodes hold in pieces of that size. If sizes divide one another, as TP degrees do, workers that keep all
/// limits fit.
struct GpuLimit {
  std::size_t kind = 0;
  int size = 1;  ///< 1: all workers and all GPUs
  int gpus = 0;
  /// GPUs that one worker of the mode uses of this limit.
  [[nodiscard]] int needs(const WorkerMode& mode) const {
    int all = 0;
    mode.each_block(kind, [&](int together) { all += together % size == 0 ? together : 0; });
    return all;
  }
};
/// One limit for all GPUs of each kind, and those of nodes that do not follow from it for whole workers.
[[nodiscard]] std::vector<GpuLimit> gpu_limits(const PoolsProblem& problem, const PoolSite& site);

}  // namespace wattle::plan
