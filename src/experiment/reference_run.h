#pragma once
// A simulated run that a live one is compared with, over the same arrivals and at any moment.
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

  /// Joules until `seconds` of its time. Its GPUs go on drawing idle power when its requests have ended by then.
  [[nodiscard]] double energy_until(double seconds) const;
};

/// The scenario's first `length` (Span::max(): all of it) under the recipe named. Keys in `overrides` that its policies
/// lack are ignored: compared recipes share them. `out`: where its run directory goes; empty: nowhere. Errors: as
/// prepare_run's, or a directory that cannot be written.
[[nodiscard]] Result<ReferenceRun> reference_run(const config::LoadedScenario& scenario, const std::string& recipe,
                                                 const systems::SplitOverrides& overrides, Span length,
                                                 const std::string& out);

}  // namespace wattle::experiment
