#pragma once
// Whether what a scenario and a recipe say goes together: the names by which sections speak of each other, and more.
#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// Sites, tiers, tenants, pools and classes: each name once, each mention of one there is. The first problem, at
/// its line.
[[nodiscard]] Result<void> check_names(const LoadedScenario& loaded);

/// What --set says of synthetic requests would do nothing beside a trace. A file may keep it for when there is none.
[[nodiscard]] Result<void> check_workload(const LoadedScenario& loaded);

/// The name of what a run's folder is called after: no path, and not empty.
[[nodiscard]] Result<void> check_file_name(const Origins& origins, const std::string& name);

}  // namespace wattle::config
