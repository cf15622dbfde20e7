#pragma once
// What DynamoLLM's cluster and pool managers are made with, in one process or in several.
#include <cstddef>
#include <map>
#include <vector>

#include "managers/cluster_manager.h"
#include "managers/learned_reserve.h"
#include "managers/overheads.h"
#include "managers/pool_manager.h"

namespace wattle::managers {

struct HierarchyOptions {
  std::size_t pools = 0;  ///< 0: one for each class
  /// Of instances at work, by TP degree: the cluster manager counts on no lower ones.
  std::map<int, MegaHertz> lowest_clocks;
  ClusterOptions cluster;
  PoolOptions pool;
  Overheads overheads;
  LearnedReserveOptions reserve;
  bool proactive = true;  ///< nodes are started before their epoch; else when it begins
  /// Requests per second by class and slot before the run; the fleet is sized for the last season or what is known.
  std::vector<std::vector<double>> past;
};

}  // namespace wattle::managers
