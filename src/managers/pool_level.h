#pragma once
// The pool managers of some or all pools: they turn the cluster manager's mandate and their observations into their
// part of the plan. They may run as processes of their own; after a restart they take their pools' layout from what
// they observe.
#include <memory>
#include <optional>
#include <vector>

#include "managers/cluster_level.h"
#include "managers/pool_map.h"

namespace wattle::managers {

class PoolLevel {
 public:
  /// `shapes`: the fleet's, one for each TP degree. Nodes start as instances of the largest; those of the first plan as
  /// the pool manager splits them, if NodeRule::Whole counted on that.
  PoolLevel(std::shared_ptr<const plan::LoadTable> table, std::vector<policy::Shape> shapes,
            const HierarchyOptions& options);

  /// Restricts this object to these pools (ascending, distinct). Before the first plan.
  void only(std::vector<std::size_t> pools) { mine_ = std::move(pools); }

  /// Instances, steps and levels of its pools, and weights of the classes that belong to them. Requests go to their
  /// class's pool, the share that the cluster manager says to larger ones, and none to pools in which nothing serves
  /// yet. The first plan lists larger instances first, the order in which nodes can hold all of them.
  [[nodiscard]] Plan plan(const policy::ScalingView& view, const ClusterMandate& mandate);

  /// Reserve by pool, beyond the margin, as a share of capacity.
  void keep_free(const std::vector<double>& reserve) {
    for (std::size_t p = 0; p < managers_.size(); ++p) managers_[p].keep_free(reserve[p]);
  }

  [[nodiscard]] const PoolMap& pools() const { return map_; }
  [[nodiscard]] const std::vector<policy::Shape>& shapes() const { return shapes_; }

 private:
  struct PoolState {
    Layout wanted;  ///< instances by TP
    Mandate given;  ///< from the cluster manager
    Instant next;   ///< epoch
    const char* reason = "";
    std::vector<PlanStep> steps = {};  ///< begun in this plan
    Instant made = {};                 ///< when that was decided
  };

  [[nodiscard]] std::vector<double> in_pools(const std::vector<double>& rate_per_s, const ClusterOrder& order) const;
  void follow(const ClusterOrder& order);
  void take_over(const policy::ScalingView& view);
  void begin(const policy::ScalingView& view, const ClusterOrder& order);
  void resize(std::size_t pool, int gpus);
  void manage(std::size_t pool, const policy::ScalingView& view, const std::vector<double>& load_per_s);
  [[nodiscard]] static std::vector<double> taken_in(const ClusterOrder& order, const std::vector<double>& load_now,
                                                    bool known);
  [[nodiscard]] double taken_in_of(std::size_t request_class, const ClusterOrder& order,
                                   const std::vector<double>& taken_in) const;
  [[nodiscard]] std::optional<std::size_t> fallback(std::size_t request_class, const std::vector<bool>& serves) const;
  [[nodiscard]] std::vector<PoolWeight> weights(const policy::ScalingView& view, const ClusterOrder& order,
                                                const std::vector<double>& taken_in) const;
  [[nodiscard]] std::vector<FleetMember> members_of(std::size_t pool, const policy::ScalingView& view) const;
  [[nodiscard]] int largest() const;

  std::shared_ptr<const plan::LoadTable> table_;
  std::vector<policy::Shape> shapes_;
  HierarchyOptions options_;
  PoolMap map_;
  LoadHistory history_;  ///< for the actual load; the expected load is the cluster manager's
  std::vector<PoolManager> managers_;
  std::vector<PoolState> pools_;
  std::vector<std::size_t> mine_;
  std::optional<ClusterOrder> followed_, grown_;
  Instant made_;  ///< when the order being followed arrived
};

}  // namespace wattle::managers
