#pragma once
// Whether the names by which a scenario's sections speak of each other are those of something.
#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// Sites, tiers, tenants, pools and classes: each name once, each mention of one there is. The first problem, at
/// its line.
[[nodiscard]] Result<void> check_names(const LoadedScenario& loaded);

}  // namespace wattle::config
