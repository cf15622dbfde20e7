#pragma once
// Shedding by managers: what a plan does not carry is lacking in its weights (model/plan.h: PoolWeight).

namespace wattle::managers {

/// Of the requests that come, the share that is taken in where so many are carried; requests per second, both.
[[nodiscard]] inline double taken_in(double carried_per_s, double comes_per_s) {
  if (carried_per_s <= 0.0) return 0.0;
  return comes_per_s > carried_per_s ? carried_per_s / comes_per_s : 1.0;
}

}  // namespace wattle::managers
