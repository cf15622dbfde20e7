#pragma once
// DynamoLLM's cluster and pool managers combined as one scaling policy (HPCA 2025, section IV-B). Clocks are decided by
// the instance managers.
#include <memory>
#include <utility>
#include <vector>

#include "managers/cluster_level.h"
#include "managers/learned_reserve.h"
#include "managers/mistaken.h"
#include "managers/pool_level.h"
#include "policy/scaling/scaling.h"

namespace wattle::managers {

/// Asked about every minute; cluster and pool epochs are multiples of the period. Plan::levels contains each level's
/// part: what it was given and what it passed on.
class Hierarchy final : public policy::ScalingPolicy {
 public:
  /// `shapes`: the fleet's, one for each TP degree. Nodes start as instances of the largest shape.
  Hierarchy(const std::shared_ptr<const plan::LoadTable>& table, std::vector<policy::Shape> shapes,
            const HierarchyOptions& options)
      : cluster_(table, options),
        pools_(table, std::move(shapes), options),
        mistaken_(*table),
        reserve_(*table, pools_.pools(), options.reserve) {}
  Plan plan(const policy::ScalingView& asked) override {
    const Heard heard = hear(asked);
    policy::ScalingView view = asked;
    view.rate_per_s = heard.rate_per_s;
    return pools_.plan(view, cluster_.mandate(heard.observation, view.now));
  }

  struct Heard {
    std::vector<double> rate_per_s;  ///< by actual class of the requests, as learned
    ClusterObservation observation;
  };
  /// The load and observation for which both levels plan. Also learns from the requests that have finished since the
  /// last call.
  [[nodiscard]] Heard hear(const policy::ScalingView& asked) {
    if (asked.turned_out != nullptr) {
      mistaken_.learn(*asked.turned_out);
      reserve_.learn(*asked.turned_out, asked.weights, asked.now);
    }
    Heard heard{{asked.rate_per_s.begin(), asked.rate_per_s.end()}, {}};
    mistaken_.weigh(heard.rate_per_s);
    policy::ScalingView view = asked;
    view.rate_per_s = heard.rate_per_s;
    heard.observation = observation(pools_.pools(), pools_.shapes(), view);
    heard.observation.reserve = reserve_.by_pool();
    pools_.keep_free(reserve_.by_pool());
    return heard;
  }
  [[nodiscard]] const PoolMap& pools() const { return pools_.pools(); }
  // The levels, to run as processes of their own.
  [[nodiscard]] ClusterLevel& cluster_level() { return cluster_; }
  [[nodiscard]] PoolLevel& pool_level() { return pools_; }

 private:
  ClusterLevel cluster_;
  PoolLevel pools_;
  Mistaken mistaken_;
  LearnedReserve reserve_;
};

}  // namespace wattle::managers
