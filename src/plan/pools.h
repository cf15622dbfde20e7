#pragma once
// Which workers run at which site in the next window: FREESH's pool planner (section 3.1, equation 1), as released and
// in Wattle's formulation.
#include <string_view>

#include "base/error.h"
#include "plan/pools_problem.h"

namespace wattle::plan {

[[nodiscard]] std::string_view pools_status_name(PoolsStatus status);

/// Plans one window. `previous` (the plan in force, for the same sites and modes) determines the cost of switching and
/// gives the solver a start. Errors: series of different lengths, indices out of range, numbers that are not finite, a
/// margin below 1.
[[nodiscard]] Result<PoolsPlan> plan_pools(const PoolsProblem& problem, const PoolsOptions& options,
                                           const PoolsPlan* previous = nullptr);

}  // namespace wattle::plan
