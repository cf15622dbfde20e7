#pragma once
// Shedding by managers: load that a plan does not carry is missing from its weights (model/plan.h: PoolWeight).

namespace wattle::managers {

/// Share of the arriving requests that is admitted, in [0, 1]; both arguments in requests per second.
[[nodiscard]] inline double taken_in(double carried_per_s, double comes_per_s) {
  if (carried_per_s <= 0.0) return 0.0;
  return comes_per_s > carried_per_s ? carried_per_s / comes_per_s : 1.0;
}

}  // namespace wattle::managers
