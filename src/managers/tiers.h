#pragma once
// Requests of one class with several objectives: pools of their own only where that saves energy over one pool that
// keeps the strictest (DynamoLLM, HPCA 2025, section IV-D).
#include <vector>

#include "base/error.h"
#include "plan/load_table.h"
#include "plan/sharding.h"

namespace wattle::managers {

/// A class's requests of one tier.
struct TierLoad {
  double load_per_s = 0.0;
  plan::ShardLimits limits;
  std::vector<plan::ShardProfile> profiles = {};  ///< of a pool of which it is the strictest; empty: the class's
};

struct TierSplit {
  std::vector<std::size_t> pool_of;  ///< by tier, from 0; all 0: one pool
  Watts one_pool, split;             ///< what each takes; the smaller one was chosen
  Watts apart;                       ///< the best with more pools than one; one_pool where there is no such
};

/// Neighbouring tiers, from the strictest on, share a pool or not: all such groupings are compared, by equation 1 with
/// all clocks. At most 12 tiers. `gpus`: for all of them; each pool has nodes of its own of so many, 0: GPUs one by
/// one. Errors: no tier, too many; profiles that make no sense.
[[nodiscard]] Result<TierSplit> split_tiers(const plan::ProfiledClass& of, const std::vector<TierLoad>& tiers, int gpus,
                                            Watts unused_gpu, int gpus_per_node = 0);

}  // namespace wattle::managers
