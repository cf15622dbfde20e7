#pragma once
// A simulated run for comparison with a live one, over the same arrivals, at any time.
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "journal/summary.h"
#include "systems/recipe.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::experiment {

struct ReferenceRun {
  journal::RunSummary summary;
  std::vector<double> energy_j;  ///< cumulative, at the end of each second

  /// Joules until `seconds` of simulated time. After the last request the GPUs continue to draw idle power.
  [[nodiscard]] double energy_until(double seconds) const;
};

/// Simulates the scenario's first `length` (Span::max(): all of it) under the named recipe. `overrides` that its
/// policies lack are ignored, because compared recipes share them. `out`: run directory to write; empty: none. Errors:
/// those of prepare_run; a directory that cannot be written.
[[nodiscard]] Result<ReferenceRun> reference_run(const config::LoadedScenario& scenario, const std::string& recipe,
                                                 const systems::SplitOverrides& overrides, Span length,
                                                 const std::string& out);

}  // namespace wattle::experiment
