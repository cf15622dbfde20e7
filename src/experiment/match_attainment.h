#pragma once
// Compares recipes at equal attainment: each gets the reserve with which it reaches a baseline's attainment with least
// energy.
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/fill.h"
#include "experiment/simulate.h"
#include "workload/halves.h"

namespace wattle::experiment {

/// An attainment no more than this below the baseline's counts as equal: the standard error of a share of 99.5 % among
/// 5,000 requests.
inline constexpr double kAttainmentSlack = 0.001;

/// A recipe with the reserve found for it.
struct Matched {
  std::vector<std::pair<std::string, std::string>> reserve;  ///< keys and values; none: the recipe reaches it as it is
  bool settable = false;                                     ///< the recipe has a reserve to set
  bool kept = false;  ///< reached on the first half; false: this reserve came closest
  int runs = 0;       ///< number of runs on the first half
  journal::Attainment first_half;
  journal::RunSummary second_half;
};

/// The largest shortfall of `ours` below `baseline` over all objectives; negative if all are above. An objective that
/// is not stated counts as met by finished requests.
[[nodiscard]] double short_of(const journal::Attainment& ours, const journal::Attainment& baseline);

/// Runs the baseline's recipe, unchanged, on one half of the workload's time.
[[nodiscard]] Result<journal::RunSummary> run_half(const config::LoadedScenario& scenario,
                                                   const systems::LoadedRecipe& recipe, workload::Half half,
                                                   const SimulateOptions& options);

/// Raises all keys of systems::reserves_of together, in twentieths of their ranges, until the first half reaches the
/// baseline's attainment, then lowers each in turn, twice, to the value with least energy that still reaches it. If it
/// is never reached: the level that comes closest. The second half is run with these values; `options` (out_dir)
/// applies to that run. Up to 21 short runs, plus 90 for each key. `baseline`: its attainment on the first half.
/// `overrides`: those with which `recipe` was loaded. Errors: those of run_simulation.
[[nodiscard]] Result<Matched> match_attainment(const config::LoadedScenario& scenario, const std::string& recipe,
                                               const std::vector<config::Override>& overrides,
                                               const journal::Attainment& baseline, const SimulateOptions& options);

}  // namespace wattle::experiment
