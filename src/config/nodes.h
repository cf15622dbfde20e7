#pragma once
// What a scenario says of machines, as the plan executor takes it.
#include <vector>

#include "config/load.h"
#include "model/fleet.h"
#include "model/plan.h"
#include "plan/reshard.h"

namespace wattle::config {

/// All of them, numbered in the order of [[node]].
[[nodiscard]] std::vector<Node> nodes_of(const Scenario& scenario);

/// NodeOptions::idle_gpu of each of them.
[[nodiscard]] std::vector<Milliwatts> idle_gpus_of(const Scenario& scenario);

/// Where instances of pool `p` may be placed: on nodes of its GPU and site. Empty: there are no [[node]]s.
[[nodiscard]] std::vector<NodeId> nodes_for(const Scenario& scenario, std::size_t p);

/// The P/D pairs that a fleet may have: every [[fleet]] of role prefill with every one of role decode at its site. By
/// number of [[fleet]] entries; the shapes of a plan are these, and then the pairs.
[[nodiscard]] std::vector<PairShape> pairs_of(const Scenario& scenario);

/// Shapes of the instances that one of a plan's shape has: itself, or both of a pair, that which decodes first.
[[nodiscard]] std::vector<std::size_t> instances_of(std::size_t shape, const Scenario& scenario);

/// The machines that a planner has.
struct Cluster {
  /// GPUs of each node on which some instance of the fleet may stand. Where the scenario has no [[node]]s: the GPUs of
  /// its [[fleet]]s' instances, on as many machines as hold one of its largest instances each.
  std::vector<std::int32_t> node_gpus = {};
  Watts unused_gpu = {};  ///< the most that one without an instance draws, while others of its node have some
  plan::ReshardProblem reshard = {};  ///< without layouts
};
[[nodiscard]] Cluster cluster_of(const LoadedScenario& loaded);

/// Weights, links and memory of a re-shard; without layouts. Memory is that of the fleet's smallest GPU.
[[nodiscard]] plan::ReshardProblem reshard_problem(const LoadedScenario& loaded);

}  // namespace wattle::config
