#pragma once
// Where instances stand: sites with their electricity, nodes with their GPUs, pools with their purpose.
#include <cstdint>
#include <string>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// A data centre. Series are named here and kept by their readers (carbon/).
struct Site {
  SiteId id;
  std::string name;
  std::string carbon_series;      ///< of its electricity's carbon intensity; empty: the scenario's constant
  std::string price_series;       ///< of its electricity's price; empty: none
  std::vector<Span> round_trips;  ///< to each site, by SiteId; to itself within the data centre. Empty: not known
};

/// A machine of GPUs of one kind.
struct Node {
  NodeId id;
  std::string name;
  std::string gpu;  ///< name of its GpuSpec
  std::int32_t gpus = 1;
  SiteId site;
};

/// Instances that are planned and routed to together.
struct Pool {
  PoolId id;
  std::string name;
  std::vector<ClassId> classes;  ///< of the requests it is for; empty: all
};

}  // namespace wattle
