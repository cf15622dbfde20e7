#pragma once
// Which pool serves which class: n pools over the classes in their order, each for neighbouring ones.
#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "model/plan.h"
#include "plan/load_table.h"
#include "plan/sharding.h"
#include "units/quantity.h"

namespace wattle::managers {

/// Pools are ordered as their classes are; the next pool serves larger requests. A pool is planned for as though all of
/// its requests were of its largest class (`heaviest`): the others count as the load they are to that.
class PoolMap {
 public:
  /// `pools` in [1, sizes of class]; 0: a pool for each. `table` outlives it. Where the table has tiers, each is so
  /// many neighbours, the strictest tier's last.
  /// `lowest_clocks`: by TP degree, of instances at work; plans count on no lower ones.
  PoolMap(const plan::LoadTable& table, std::size_t pools, std::map<int, MegaHertz> lowest_clocks = {});

  [[nodiscard]] std::size_t pools() const { return heaviest_.size(); }
  [[nodiscard]] std::size_t classes() const { return pool_of_.size(); }
  [[nodiscard]] std::size_t pool_of(std::size_t request_class) const { return pool_of_[request_class]; }
  [[nodiscard]] std::size_t heaviest(std::size_t pool) const { return heaviest_[pool]; }
  [[nodiscard]] const plan::ProfiledClass& profile(std::size_t pool) const { return table_.classes[heaviest_[pool]]; }
  [[nodiscard]] std::size_t tiers() const { return tiers_; }
  /// Where what a pool cannot take goes: that of the next stricter tier; of the strictest, to larger requests'
  /// strictest. None: at least pools(). Always after `pool`.
  [[nodiscard]] std::size_t next(std::size_t pool) const { return (pool + 1) % tiers_ == 0 ? pool + tiers_ : pool + 1; }
  /// Requests per second by class as load of each pool, in its heaviest class's requests per second.
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
