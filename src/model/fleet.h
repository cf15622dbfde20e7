#pragma once
// Where instances stand: nodes with their GPUs, pools with their purpose.
#include <cstdint>
#include <string>
#include <vector>

#include "units/quantity.h"

namespace wattle {

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
