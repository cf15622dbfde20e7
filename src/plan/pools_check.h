#pragma once
// Is a plan of pools what it says it is? Works from the problem alone and shares nothing with the planner.
#include <string>
#include <vector>

#include "plan/pools.h"

namespace wattle::plan {

/// What is wrong with `plan`, one line each: GPUs over a site's, workers outside latency limits, capacity or loads
/// short of demand, sums that do not match. Empty: nothing. `previous` as it was given to the planner.
[[nodiscard]] std::vector<std::string> check_pools(const PoolsProblem& problem, const PoolsOptions& options,
                                                   const PoolsPlan& plan, const PoolsPlan* previous = nullptr);

}  // namespace wattle::plan
