#pragma once
// The pool managers of some pools, or of all: what comes from above and what they observe become the part of
// the plan that is theirs. They may be processes of their own; those that restart take their pools' layout from what
// they observe.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "managers/cluster_level.h"
#include "managers/pool_map.h"

namespace wattle::managers {

class PoolLevel {
 public:
  /// `shapes`: the fleet's, by TP degree (one of each). Nodes come as instances of the largest; those that the first
  /// plan begins with as the pool manager splits them, where NodeRule::Whole counted on that.
  PoolLevel(std::shared_ptr<const plan::LoadTable> table, std::vector<policy::Shape> shapes,
            const HierarchyOptions& options);

  /// Only these pools are its own; ascending, each once. Before the first plan.
  void only(std::vector<std::size_t> pools) { mine_ = std::move(pools); }

  /// Instances, steps and levels of its pools, and weights of the classes that belong to them. Requests go to the pool
  /// of their class, the share that the cluster manager says on to larger ones, and past pools in which nothing serves
  /// yet. The first plan has larger instances first, the order in which nodes hold all.
  [[nodiscard]] Plan plan(const policy::ScalingView& view, const ClusterMandate& mandate);

  /// By pool, besides the margin.
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
  LoadHistory history_;  ///< for the load there is; what is expected is the cluster manager's
  std::vector<PoolManager> managers_;
  std::vector<PoolState> pools_;
  std::vector<std::size_t> mine_;
  std::optional<ClusterOrder> followed_, grown_;
  Instant made_;  ///< when the order followed came
};

}  // namespace wattle::managers
