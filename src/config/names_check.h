#pragma once
// Whether what a scenario and a recipe say goes together: the names by which sections speak of each other, and more.
#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// Sites, tiers, tenants, pools and classes: each name once, each mention of one there is. The first problem, at
/// its line.
[[nodiscard]] Result<void> check_names(const LoadedScenario& loaded);

/// What --set gives without what it needs would do nothing: keys of synthetic requests beside a trace, of prefixes
/// where no request shares one, and the like. A file may keep them for when it is there.
[[nodiscard]] Result<void> check_effects(const LoadedScenario& loaded);

/// The name of what a run's folder is called after: no path, and not empty.
[[nodiscard]] Result<void> check_file_name(const Origins& origins, const std::string& name);

}  // namespace wattle::config
