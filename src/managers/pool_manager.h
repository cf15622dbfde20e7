#pragma once
// DynamoLLM's pool manager (HPCA 2025, section IV-B): every five minutes, how a pool's GPUs are split into instances.
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "managers/learned_reserve.h"
#include "model/plan.h"
#include "plan/reshard.h"
#include "plan/sharding.h"
#include "policy/scaling/scaling.h"

namespace wattle::managers {

struct PoolOptions {
  Span epoch = Span::s(300);
  bool out_of_turn = false;           ///< a layout that does not carry the load is changed before the epoch ends (ours)
  bool reshards = true;               ///< false: instances stay as they were started
  bool top_clock = true;              ///< layouts are chosen for the highest clock (paper); false: for the best clock
  double subset = 0.5;                ///< share of the pool's GPUs that change at once; at least one step
  double margin = 0.0;                ///< share of capacity kept free
  bool bounds_clocks = false;         ///< passes a range of clocks to its instances' managers (ours)
  Watts unused_gpu;                   ///< power of a GPU of the pool's nodes without an instance
  plan::ReshardProblem reshard = {};  ///< without its layouts
};

/// Instances of a pool: number by TP degree.
using Layout = std::map<int, int>;

/// The rest of the cluster; empty: GPUs are not accounted for.
struct Surroundings {
  std::span<const FleetMember> members;  ///< of all pools, in all phases
  std::span<const NodeView> nodes;
};

struct PoolDecision {
  Layout wanted;                ///< after the steps
  std::vector<PlanStep> steps;  ///< re-shards, largest saving first; or moves
  Watts saving;                 ///< of all of them
  const char* reason = "";
};

class PoolManager {
 public:
  /// `shapes`: by position, as in the fleet; the pool's GPUs are used by instances of these.
  PoolManager(PoolId pool, std::span<const policy::Shape> shapes, const PoolOptions& options)
      : pool_(pool), shapes_(shapes.begin(), shapes.end()), options_(options) {}

  /// A reserve beyond the margin, as a share of capacity.
  void keep_free(double reserve) { reserve_ = reserve; }

  /// Power of the pool's GPUs if its load is shared in proportion to instances' capacity; none: the load exceeds what
  /// they carry within the class's limits.
  [[nodiscard]] std::optional<Watts> power(const plan::ShardClass& load, const Layout& layout, int gpus) const;

  /// Whether `members` (the pool's, serving and not changing) carry the load, with nothing kept free.
  [[nodiscard]] bool carry(std::span<const FleetMember> members, const plan::ShardClass& load) const;

  /// From the lowest clock at which the layout carries the load to the highest; none: there are no profiles.
  [[nodiscard]] std::optional<ClockRange> clocks(const plan::ShardClass& load, const Layout& layout) const;

  /// The best layout of `gpus` GPUs, by equation 1. If the demand exceeds all layouts: the one that carries most.
  [[nodiscard]] Result<Layout> best(const plan::ShardClass& load, int gpus) const;

  /// The layout with which a pool without instances begins: the best one, if the pool re-shards at all and nodes of
  /// `gpus_per_node` can hold it. None: as its GPUs come.
  [[nodiscard]] std::optional<Layout> begins_with(const plan::ShardClass& load, int gpus, int gpus_per_node) const;

  /// `members`: the pool's, serving and not changing. Instances on one node are re-sharded into others on their GPUs
  /// and the free ones of that node. A change is made if it saves more within the epoch than its steps cost, or if the
  /// present layout does not carry the load. If no layout is better, instances are moved together so that a node
  /// becomes empty, if that saves more than it costs.
  [[nodiscard]] PoolDecision decide(const plan::ShardClass& load, int gpus, std::span<const FleetMember> members,
                                    const Surroundings& around = {}) const;

 private:
  struct Step {
    PlanStep step;
    Watts saving;
  };
  [[nodiscard]] double margin() const { return with_reserve(options_.margin, reserve_); }
  [[nodiscard]] int tp_of(const FleetMember& member) const { return shapes_[member.shape].gpus; }
  [[nodiscard]] Layout layout_of(std::span<const FleetMember> members) const;
  [[nodiscard]] std::optional<std::size_t> shape_of(int tp) const;
  [[nodiscard]] std::vector<Step> way(const plan::ShardClass& load, std::span<const FleetMember> members,
                                      std::span<const NodeView> nodes, Layout have, const Layout& wanted) const;
  [[nodiscard]] std::vector<PlanStep> moves_off_a_node(const plan::ShardClass& load,
                                                       std::span<const FleetMember> members,
                                                       const Surroundings& around) const;
  [[nodiscard]] StepCost cost(const plan::ShardClass& load, const std::vector<int>& from,
                              const std::vector<int>& to) const;

  PoolId pool_;
  std::vector<policy::Shape> shapes_;
  PoolOptions options_;
  double reserve_ = 0.0;
};

}  // namespace wattle::managers
