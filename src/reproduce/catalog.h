#pragma once
// Specs and profiles of the project as the catalogue the fidelity library works on.
#include "base/error.h"
#include "config/project.h"
#include "fidelity/experiment.h"
#include "fidelity/seen_rows.h"

namespace wattle::reproduce {

/// Every GPU and LLM spec, the profiles there are, and how the scenario voltanallm-2p2d sets its engines up. Errors:
/// the first file that is wrong.
[[nodiscard]] Result<fidelity::Catalog> load_catalog(const config::Project& project);

/// Rows that fits of the project's profiles, or choices by hand, have used. Errors: no such list beside the profiles, a
/// malformed one.
[[nodiscard]] Result<fidelity::SeenRows> load_seen_rows(const config::Project& project);

}  // namespace wattle::reproduce
