#pragma once
// Checks a plan of pools against its problem. Shares no code with the planner.
#include <string>
#include <vector>

#include "plan/pools.h"

namespace wattle::plan {

/// The faults of `plan`, one line each: more GPUs than a site has, workers outside latency limits, capacity or loads
/// below demand, sums that do not match. Empty: none. `previous`: as given to the planner.
[[nodiscard]] std::vector<std::string> check_pools(const PoolsProblem& problem, const PoolsOptions& options,
                                                   const PoolsPlan& plan, const PoolsPlan* previous = nullptr);

}  // namespace wattle::plan
