#pragma once
// How much capacity is kept free, learned from the objectives that requests miss (ours; docs/decisions/0038). Load
// profiles are measured with Poisson arrivals at instances that share them. Real arrivals are bursty, fewer instances
// share less, and load rises within a minute. Late requests show how much of this matters.
#include <span>
#include <vector>

#include "managers/pool_map.h"
#include "model/plan.h"
#include "model/turned_out.h"
#include "plan/load_table.h"
#include "units/time.h"

namespace wattle::managers {

struct LearnedReserveOptions {
  double gain = 0.0;   ///< added each minute, times (share of late requests - `late`); 0: none is kept
  double late = 0.01;  ///< share of requests that may be late, beyond those that no instance would serve in time
  double most = 0.5;   ///< upper bound of the reserve, as a share of capacity
};

/// Share of capacity that remains if both a margin and a reserve are kept free.
[[nodiscard]] inline double with_reserve(double margin, double reserve) {
  return 1.0 - (1.0 - margin) * (1.0 - reserve);
}

/// An integral controller per pool. It settles where the share of late requests is `late`, or at `most` if more
/// capacity does not help.
class LearnedReserve {
 public:
  /// By class: the share of requests that may be late (plan::may_be_late with `options.late`), and the pool of its own.
  LearnedReserve(std::vector<double> may_be_late, std::vector<std::size_t> pool_of,
                 const LearnedReserveOptions& options);
  LearnedReserve(const plan::LoadTable& table, const PoolMap& pools, const LearnedReserveOptions& options);

  /// Requests that have finished since the last call, and the pools to which their classes go by the weights in force
  /// (none: their own). Unknown classes are ignored.
  void learn(const TurnedOut& fresh, std::span<const PoolWeight> weights, Instant now);
  /// Reserve by pool, a share of capacity, in steps of 1/50, so that plans do not change every minute.
  [[nodiscard]] std::vector<double> by_pool() const;

 private:
  LearnedReserveOptions options_;
  std::vector<double> late_;  ///< by class: permitted share of late requests
  std::vector<std::size_t> pool_of_;
  std::vector<double> reserve_;
  Instant heard_ = Instant::never();
};

}  // namespace wattle::managers
