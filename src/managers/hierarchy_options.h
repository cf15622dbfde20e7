#pragma once
// Options of DynamoLLM's cluster and pool managers, in one process or in several.
#include <cstddef>
#include <map>
#include <vector>

#include "managers/cluster_manager.h"
#include "managers/learned_reserve.h"
#include "managers/overheads.h"
#include "managers/pool_manager.h"

namespace wattle::managers {

struct HierarchyOptions {
  std::size_t pools = 0;  ///< 0: one per class
  /// By TP degree: the lowest clocks of busy instances on which the cluster manager counts.
  std::map<int, MegaHertz> lowest_clocks;
  ClusterOptions cluster;
  PoolOptions pool;
  Overheads overheads;
  LearnedReserveOptions reserve;
  bool proactive = true;  ///< nodes are started before their epoch; otherwise when it begins
  /// Requests per second by class and slot before the run. The fleet begins sized for its last season, or for what is
  /// known.
  std::vector<std::vector<double>> past;
};

}  // namespace wattle::managers
