#pragma once
// DynamoLLM's cluster and pool managers as one scaling policy (HPCA 2025, section IV-B). Clocks are the instance
// managers' own.
#include <memory>
#include <utility>
#include <vector>

#include "managers/cluster_level.h"
#include "managers/mistaken.h"
#include "managers/pool_level.h"
#include "policy/scaling/scaling.h"

namespace wattle::managers {

/// Asked every minute or so; a cluster epoch and a pool epoch are whole multiples of that. Each level's part is in
/// Plan::levels: what it was given, what it passes below.
class Hierarchy final : public policy::ScalingPolicy {
 public:
  /// `shapes`: the fleet's, by TP degree (one of each). Nodes come as instances of the largest.
  Hierarchy(const std::shared_ptr<const plan::LoadTable>& table, std::vector<policy::Shape> shapes,
            const HierarchyOptions& options)
      : cluster_(table, options), pools_(table, std::move(shapes), options), mistaken_(*table) {}
  Plan plan(const policy::ScalingView& asked) override {
    policy::ScalingView view = asked;
    const std::vector<double> rates = loads(asked);
    view.rate_per_s = rates;
    return pools_.plan(view, cluster_.mandate(observation(pools_.pools(), pools_.shapes(), view), view.now));
  }

  /// Rates by class, of what requests turn out to be, from now on by what has finished since last asked, too.
  [[nodiscard]] std::vector<double> loads(const policy::ScalingView& asked) {
    if (asked.turned_out != nullptr) mistaken_.learn(*asked.turned_out);
    std::vector<double> rates(asked.rate_per_s.begin(), asked.rate_per_s.end());
    mistaken_.weigh(rates);
    return rates;
  }
  [[nodiscard]] const PoolMap& pools() const { return pools_.pools(); }
  // Its levels, for processes of their own.
  [[nodiscard]] ClusterLevel& cluster_level() { return cluster_; }
  [[nodiscard]] PoolLevel& pool_level() { return pools_; }

 private:
  ClusterLevel cluster_;
  PoolLevel pools_;
  Mistaken mistaken_;
};

}  // namespace wattle::managers
