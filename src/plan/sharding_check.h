#pragma once
// Is a sharding what it says it is? Works from the profiles alone and shares nothing with the planner.
#include <string>
#include <vector>

#include "plan/sharding.h"

namespace wattle::plan {

/// What is wrong with `plan`, one line each: GPUs over the cluster's, loads that do not add up, limits missed, power
/// that is not the profiles'. Empty: nothing.
[[nodiscard]] std::vector<std::string> check_sharding(const ShardingProblem& problem, const ShardingPlan& plan);

}  // namespace wattle::plan
