#pragma once
// DynamoLLM's cluster and pool managers as one scaling policy (HPCA 2025, section IV-B). Clocks are the instance
// managers' own.
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "managers/cluster_manager.h"
#include "managers/overheads.h"
#include "managers/pool_manager.h"
#include "policy/scaling/scaling.h"

namespace wattle::managers {

struct HierarchyOptions {
  std::size_t pools = 0;  ///< 0: one for each class
  ClusterOptions cluster;
  PoolOptions pool;
  Overheads overheads;
  bool proactive = true;  ///< nodes are started before their epoch; else when it begins
  /// Requests per second by class and slot before the run; the fleet is sized for the last season or what is known.
  std::vector<std::vector<double>> past;
};

/// Asked every minute or so; a cluster epoch and a pool epoch are whole multiples of that. Each level's part is in
/// Plan::levels: what it was given, what it passes below. Requests go to the pool of their class, the share that the
/// cluster manager says on to larger ones, and past pools in which nothing serves yet.
class Hierarchy final : public policy::ScalingPolicy {
 public:
  /// `shapes`: the fleet's, by TP degree (one of each). Nodes come as instances of the largest.
  Hierarchy(std::shared_ptr<const plan::LoadTable> table, std::vector<policy::Shape> shapes, HierarchyOptions options);
  Plan plan(const policy::ScalingView& view) override;

  [[nodiscard]] const PoolMap& pools() const { return map_; }

 private:
  struct PoolState {
    Layout wanted;  ///< instances by TP
    Mandate given;  ///< from the cluster manager
    Instant next;   ///< epoch
    const char* reason = "";
    std::vector<PlanStep> steps;  ///< begun in this plan
  };

  void follow(const ClusterOrder& order, const policy::ScalingView& view);
  void resize(std::size_t pool, int gpus);
  void manage(std::size_t pool, const policy::ScalingView& view, const std::vector<double>& load_per_s);
  [[nodiscard]] std::vector<PoolWeight> weights(const policy::ScalingView& view) const;
  [[nodiscard]] std::vector<FleetMember> members_of(std::size_t pool, const policy::ScalingView& view) const;
  [[nodiscard]] int largest() const;

  std::shared_ptr<const plan::LoadTable> table_;
  std::vector<policy::Shape> shapes_;
  HierarchyOptions options_;
  PoolMap map_;
  ClusterManager cluster_;
  std::vector<PoolManager> managers_;
  std::vector<PoolState> pools_;
  std::optional<ClusterOrder> order_;    ///< in force
  std::optional<ClusterOrder> waiting_;  ///< for its epoch; its starts have begun
  Instant cluster_made_;
};

}  // namespace wattle::managers
