#pragma once
// Checks a sharding against its profiles. Shares no code with the planner.
#include <string>
#include <vector>

#include "plan/sharding.h"

namespace wattle::plan {

/// The faults of `plan`, one line each: more GPUs than the cluster has, loads that do not add up, missed limits, power
/// that differs from the profiles'. Empty: none.
[[nodiscard]] std::vector<std::string> check_sharding(const ShardingProblem& problem, const ShardingPlan& plan);

}  // namespace wattle::plan
