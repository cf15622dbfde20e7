#pragma once
// Recipes compared at equal attainment: each gets the reserve with which it keeps what a baseline keeps, at
// least energy.
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/fill.h"
#include "experiment/simulate.h"
#include "workload/halves.h"

namespace wattle::experiment {

/// An attainment below the baseline's by no more than this counts as kept: the standard error of a share of 99.5 %
/// among 5,000 requests.
inline constexpr double kAttainmentSlack = 0.001;

/// A recipe with the reserve found for it.
struct Matched {
  std::vector<std::pair<std::string, std::string>> reserve;  ///< keys and values; none: kept by the recipe as it is
  bool settable = false;                                     ///< has it any reserve at all?
  bool kept = false;  ///< on the first half; otherwise this reserve is the one that fell least short
  int runs = 0;       ///< tried on the first half
  journal::Attainment first_half;
  journal::RunSummary second_half;
};

/// By how much `ours` is below `baseline` in the objective where that is most; negative where all are above. Objectives
/// that are not stated count as met by those that finished.
[[nodiscard]] double short_of(const journal::Attainment& ours, const journal::Attainment& baseline);

/// The baseline, as its recipe says, on one half of the workload's time.
[[nodiscard]] Result<journal::RunSummary> run_half(const config::LoadedScenario& scenario,
                                                   const systems::LoadedRecipe& recipe, workload::Half half,
                                                   const SimulateOptions& options);

/// Raises all keys of systems::reserves_of together, in twentieths of their ranges, until the first half keeps the
/// baseline's attainment, then lowers each in turn, twice, to the value that keeps it with least energy there. Where it
/// never is kept: the level that falls least short. The second half is run with them, and `options` (out_dir) speak of
/// that run. Up to 21 short runs, and 90 more for each key. `baseline`: its attainment on the first half. `overrides`:
/// what `recipe` was loaded with. Errors: as run_simulation's.
[[nodiscard]] Result<Matched> match_attainment(const config::LoadedScenario& scenario, const std::string& recipe,
                                               const std::vector<config::Override>& overrides,
                                               const journal::Attainment& baseline, const SimulateOptions& options);

}  // namespace wattle::experiment
