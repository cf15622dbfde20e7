#pragma once
// Requests of one class with several objectives: separate pools only where that saves energy over one pool that keeps
// the strictest (DynamoLLM, HPCA 2025, section IV-D).
#include <vector>

#include "base/error.h"
#include "plan/load_table.h"
#include "plan/sharding.h"

namespace wattle::managers {

/// The requests of a class in one tier.
struct TierLoad {
  double load_per_s = 0.0;
  plan::ShardLimits limits;
  std::vector<plan::ShardProfile> profiles = {};  ///< of a pool in which this tier is the strictest; empty: the class's
};

struct TierSplit {
  std::vector<std::size_t> pool_of;  ///< by tier, from 0; all 0: one pool
  Watts one_pool, split;             ///< power of each; the smaller one was chosen
  Watts apart;                       ///< the best split into more than one pool; one_pool if there is none
};

/// Compares all groupings of neighbouring tiers, from the strictest on, into pools, by equation 1 with all clocks. At
/// most 12 tiers. `gpus`: in total; with `gpus_per_node`, each pool has nodes of its own with that many, 0: GPUs are
/// counted one by one. Errors: no tier, too many, inconsistent profiles.
[[nodiscard]] Result<TierSplit> split_tiers(const plan::ProfiledClass& of, const std::vector<TierLoad>& tiers, int gpus,
                                            Watts unused_gpu, int gpus_per_node = 0);

}  // namespace wattle::managers
