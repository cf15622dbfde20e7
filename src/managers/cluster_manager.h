#pragma once
// DynamoLLM's cluster manager (HPCA 2025, section IV-B): every half hour, how many nodes each pool gets, and which
// share of its load goes to the next larger pool.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "managers/learned_reserve.h"
#include "managers/load_history.h"
#include "managers/pool_map.h"
#include "model/plan.h"
#include "plan/sharding.h"

namespace wattle::managers {

enum class NodeRule : std::uint8_t {
  Down,   ///< floor(PL / ML), the rest goes to the next larger pool (paper)
  Up,     ///< rounded up, each pool for itself
  Whole,  ///< equation 1 over all pools at once, in GPUs (ours; solved by CBC)
};

struct ClusterOptions {
  Span epoch = Span::s(1800);
  int gpus_per_node = 8;
  int nodes = 12;  ///< size of the cluster
  NodeRule rule = NodeRule::Down;
  bool scales = true;          ///< false: sized once, for the peak of what is known at the start
  double margin = 0.0;         ///< share of a node's capacity kept free
  Watts unused_gpu;            ///< power of a GPU without an instance on a node in use (used by Whole only)
  bool out_of_turn = false;    ///< makes a new order as soon as more arrives than the newest was made for (ours)
  bool within_limits = false;  ///< no load is planned into pools of looser objectives (ours; paper: into any larger)
  LoadForecastOptions load;
};

/// The order for the pool managers, by pool.
struct ClusterOrder {
  std::vector<int> gpus;
  std::vector<double> load_per_s;  ///< expected at the peak, in requests per second of the pool's heaviest class
  std::vector<double> forwarded;   ///< share of the pool's load that goes to the next one
  std::vector<double> shed_per_s;  ///< beyond what can usefully be carried (plan::most_useful_load)
  Instant from, until;
  std::int64_t number = 0;  ///< its epoch, by the manager's clock; a replacement within the epoch has the same
  std::string problem;      ///< if load is shed: the objective at fault and the nearest configuration; else empty
  std::string tiers = {};   ///< which tiers of a class share a pool, and the power of both options; empty: one tier
};

class ClusterManager {
 public:
  /// `start`: time to start a node (Overheads::start), by which orders precede their epoch. `table` outlives it.
  ClusterManager(const plan::LoadTable& table, const PoolMap& pools, const ClusterOptions& options, Span start);

  [[nodiscard]] LoadHistory& history() { return history_; }
  [[nodiscard]] const LoadHistory& history() const { return history_; }
  /// Reserve by pool, beyond the margin; used from the next order on.
  void keep_free(const std::vector<double>& reserve) {
    if (reserve == reserve_) return;
    reserve_ = reserve;
    solve_again_ = true;
  }

  /// The order for the next epoch, once it is due. The first call returns the present epoch's; it is replaced as soon
  /// as the number of failed nodes changes, or out of turn. If demand exceeds the cluster, as much as possible is
  /// carried and the rest is in shed_per_s.
  [[nodiscard]] std::optional<ClusterOrder> order(Instant now, int nodes_down = 0);

 private:
  /// Of the cluster's nodes and load among the pools, by pool.
  struct Division {
    explicit Division(std::size_t pools)
        : gpus(pools), load_per_s(pools), sent_on_per_s(pools), shed_per_s(pools), carries_per_s(pools) {}
    std::vector<int> gpus;
    std::vector<double> load_per_s, sent_on_per_s, shed_per_s;
    std::vector<double> carries_per_s;  ///< the most that it usefully can
  };

  [[nodiscard]] bool outgrown(Instant begin) const;
  [[nodiscard]] ClusterOrder make(Instant begin, Instant end, Instant from, Instant until);
  [[nodiscard]] ClusterOrder solve(const std::vector<double>& peak_per_s) const;
  [[nodiscard]] plan::ShardingProblem problem_of(const std::vector<double>& load) const;
  [[nodiscard]] std::optional<Division> optimised(const plan::ShardingProblem& problem) const;
  [[nodiscard]] Division node_by_node(const plan::ShardingProblem& problem) const;
  [[nodiscard]] std::string sent_to(std::size_t pool, const std::vector<double>& load,
                                    const std::vector<double>& sent_on, const plan::ShardingProblem& problem) const;
  [[nodiscard]] std::string share_pools(std::vector<double>& load_per_s) const;
  void in_nodes(std::vector<int>& gpus) const;
  [[nodiscard]] double node_usefully_carries(const plan::ProfiledClass& one) const;
  [[nodiscard]] double margin(std::size_t pool) const {
    return with_reserve(options_.margin, pool < reserve_.size() ? reserve_[pool] : 0.0);
  }
  [[nodiscard]] int nodes_up() const { return std::max(1, options_.nodes - down_); }

  const PoolMap& pools_;
  ClusterOptions options_;
  Span start_;
  LoadHistory history_;
  std::optional<Instant> next_;  ///< first epoch not ordered yet
  std::vector<double> solved_;   ///< peaks of the newest order; epochs shorter than a slot often have equal ones
  bool solve_again_ = true;      ///< other inputs of the problem have changed since
  ClusterOrder solution_;
  std::vector<double> reserve_;
  int down_ = 0;  ///< number of failed nodes at the last call
};

}  // namespace wattle::managers
