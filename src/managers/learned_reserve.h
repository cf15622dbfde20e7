#pragma once
// How much of what instances carry is kept free, by the objectives that requests turn out to miss (ours). Load profiles
// are of Poisson arrivals at instances that share them; real arrivals come in bursts, few instances share less, and
// loads rise within a minute. What of it matters shows in what is late.
#include <span>
#include <vector>

#include "managers/pool_map.h"
#include "model/plan.h"
#include "model/turned_out.h"
#include "plan/load_table.h"
#include "units/time.h"

namespace wattle::managers {

struct LearnedReserveOptions {
  double gain = 0.0;   ///< what a minute adds in which all requests are late beyond `late`; 0: nothing is kept free
  double late = 0.01;  ///< share of requests that may be, besides those that no instance would serve in time
  double most = 0.5;   ///< share of what instances carry
};

/// What is left of a margin and a reserve that are both kept free.
[[nodiscard]] inline double with_reserve(double margin, double reserve) {
  return 1.0 - (1.0 - margin) * (1.0 - reserve);
}

/// An integral controller for each pool: it holds the share that is late where more instances help, and ends at `most`
/// where they do not.
class LearnedReserve {
 public:
  /// `pools` outlives it.
  LearnedReserve(const plan::LoadTable& table, const PoolMap& pools, const LearnedReserveOptions& options);

  /// What has finished since it last heard, and to which pools its classes go by the weights in force (none: their
  /// own). Unknown classes are ignored.
  void learn(const TurnedOut& fresh, std::span<const PoolWeight> weights, Instant now);
  /// In steps of 1/50, so that plans do not change from minute to minute.
  [[nodiscard]] std::vector<double> by_pool() const;

 private:
  const PoolMap& pools_;
  LearnedReserveOptions options_;
  std::vector<double> late_;  ///< by class: share of requests that may be
  std::vector<double> reserve_;
  Instant heard_ = Instant::never();
};

}  // namespace wattle::managers
