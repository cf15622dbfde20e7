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

namespace wattle::managers {

enum class NodeRule : std::uint8_t {
  Down,   ///< floor(PL / ML), what is left over to the next larger pool (paper)
  Up,     ///< each pool for itself
  Whole,  ///< equation 1 over all pools at once, in GPUs (ours: CBC solves it in the time that the epoch allows)
};

struct ClusterOptions {
  Span epoch = Span::s(1800);
  int gpus_per_node = 8;
  int nodes = 12;  ///< the cluster has no more
  NodeRule rule = NodeRule::Down;
  bool scales = true;          ///< false: sized once, for the peak of what is known when it begins
  double margin = 0.0;         ///< share of what a node carries that is kept free
  Watts unused_gpu;            ///< draw of a GPU of a node in use without an instance (Whole alone looks at it)
  bool out_of_turn = false;    ///< an order, too, as soon as more comes than the newest was made for (ours)
  bool within_limits = false;  ///< no load is planned into a pool of looser objectives (ours; paper: into any larger)
  LoadForecastOptions load;
};

/// What it passes to the pools' managers, by pool.
struct ClusterOrder {
  std::vector<int> gpus;
  std::vector<double> load_per_s;  ///< expected at the peak, in the pool's heaviest requests
  std::vector<double> forwarded;   ///< share of what comes to the pool that goes to the next
  std::vector<double> shed_per_s;  ///< beyond what can be carried usefully (plan::most_useful_load)
  Instant from, until;
  std::int64_t number = 0;  ///< of its epoch, by the manager's clock: another order has another, or says else
  std::string problem;      ///< why something is shed: which objective, what comes nearest; else empty
  std::string tiers = {};   ///< which tiers of a class share a pool, and what either way takes; empty: there is one
};

class ClusterManager {
 public:
  /// `start`: what a new node takes (Overheads::start): orders are made so long before their epoch. `table` outlives
  /// it.
  ClusterManager(const plan::LoadTable& table, const PoolMap& pools, const ClusterOptions& options, Span start);

  [[nodiscard]] LoadHistory& history() { return history_; }
  [[nodiscard]] const LoadHistory& history() const { return history_; }
  /// Besides the margin, by pool; holds from the next order on.
  void keep_free(const std::vector<double>& reserve) {
    if (reserve == reserve_) return;
    reserve_ = reserve;
    solve_again_ = true;
  }

  /// The order for the next epoch, once it is due; at the first call that for the present one, and another for it as
  /// soon as more or fewer nodes are down, or out of turn. Demand above the cluster: as much as it carries, the rest by
  /// pool in shed_per_s.
  [[nodiscard]] std::optional<ClusterOrder> order(Instant now, int nodes_down = 0);

 private:
  [[nodiscard]] bool outgrown(Instant begin) const;
  [[nodiscard]] ClusterOrder make(Instant begin, Instant end, Instant from, Instant until);
  [[nodiscard]] ClusterOrder solve(const std::vector<double>& peak_per_s) const;
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
  std::optional<Instant> next_;  ///< epoch not ordered yet
  std::vector<double> solved_;   ///< peaks of the newest order; epochs shorter than a slot often have the same
  bool solve_again_ = true;      ///< what else the program is made of has changed since
  ClusterOrder solution_;
  std::vector<double> reserve_;
  int down_ = 0;  ///< nodes, when it was last asked
};

}  // namespace wattle::managers
