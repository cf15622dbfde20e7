#pragma once
// HiGHS behind plan/milp.h, in builds that found it.
#include <span>

#include "plan/milp.h"

namespace wattle::plan {

/// As solve(), which alone calls it. A build without HiGHS has no answer: Unsolved. HiGHS knows no plain_pricing, and
/// `nodes` bounds it as closely as its heuristics allow.
[[nodiscard]] MilpSolution solve_by_highs(const Milp& program, const MilpOptions& options,
                                          std::span<const double> start);

}  // namespace wattle::plan
