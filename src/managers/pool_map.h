#pragma once
// Which pool serves which class: n pools over the ordered classes, each for neighbouring ones.
#include <cstddef>
#include <map>
#include <vector>

#include "model/plan.h"
#include "plan/load_table.h"
#include "plan/sharding.h"
#include "units/quantity.h"

namespace wattle::managers {

/// Pools are ordered like their classes; the next pool serves larger requests. A pool is planned as if all of its
/// requests were of its largest class (`heaviest`): others count as the equivalent load of that class.
class PoolMap {
 public:
  /// `pools` in [1, class sizes]; 0: one per size. `table` outlives it. If the table has tiers, each pool becomes one
  /// per tier, the strictest tier's last. `lowest_clocks`: by TP degree, the lowest clocks of busy instances on which
  /// plans count.
  PoolMap(const plan::LoadTable& table, std::size_t pools, std::map<int, MegaHertz> lowest_clocks = {});

  [[nodiscard]] std::size_t pools() const { return heaviest_.size(); }
  [[nodiscard]] std::size_t classes() const { return pool_of_.size(); }
  [[nodiscard]] std::size_t pool_of(std::size_t request_class) const { return pool_of_[request_class]; }
  [[nodiscard]] std::size_t heaviest(std::size_t pool) const { return heaviest_[pool]; }
  [[nodiscard]] const plan::ProfiledClass& profile(std::size_t pool) const { return table_.classes[heaviest_[pool]]; }
  [[nodiscard]] std::size_t tiers() const { return tiers_; }
  /// Where load goes that a pool cannot take: to the next stricter tier's pool; from the strictest, to the strictest of
  /// the next larger requests. None: at least pools(). Always greater than `pool`.
  [[nodiscard]] std::size_t next(std::size_t pool) const { return (pool + 1) % tiers_ == 0 ? pool + tiers_ : pool + 1; }
  /// Converts requests per second by class into each pool's load, in requests per second of its heaviest class.
  [[nodiscard]] std::vector<double> by_pool(const std::vector<double>& rate_per_s) const;
  /// All pools as one problem.
  [[nodiscard]] plan::ShardingProblem problem(const std::vector<double>& load_per_s, int gpus, Watts unused_gpu) const;

 private:
  [[nodiscard]] std::vector<plan::ShardProfile> given_clocks(std::vector<plan::ShardProfile> profiles) const;

  const plan::LoadTable& table_;
  std::map<int, MegaHertz> lowest_clocks_;
  std::size_t tiers_;
  std::vector<std::size_t> pool_of_, heaviest_;
};

}  // namespace wattle::managers
