#pragma once
// What a scenario says of machines, as the plan executor takes it.
#include <vector>

#include "config/load.h"
#include "model/fleet.h"
#include "plan/reshard.h"

namespace wattle::config {

/// All of them, numbered in the order of [[node]].
[[nodiscard]] std::vector<Node> nodes_of(const Scenario& scenario);

/// NodeOptions::idle_gpu of each of them.
[[nodiscard]] std::vector<Milliwatts> idle_gpus_of(const Scenario& scenario);

/// Where instances of pool `p` may be placed: on nodes of its GPU and site. Empty: there are no [[node]]s.
[[nodiscard]] std::vector<NodeId> nodes_for(const Scenario& scenario, std::size_t p);

/// Weights, links and memory of a re-shard; without layouts. Memory is that of the fleet's smallest GPU.
[[nodiscard]] plan::ReshardProblem reshard_problem(const LoadedScenario& loaded);

}  // namespace wattle::config
