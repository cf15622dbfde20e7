#pragma once
// Whether what a scenario and a recipe say goes together: the names by which sections speak of each other, and more.
#include <span>

#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// Sites, tiers, tenants, pools and classes: each name once, each mention of one there is. The first problem, at
/// its line.
[[nodiscard]] Result<void> check_names(const LoadedScenario& loaded);

/// Keys of synthetic requests that do nothing, as a trace or a named process makes them.
[[nodiscard]] std::span<const char* const> idle_keys(const Scenario& scenario);

/// What would do nothing: keys of synthetic requests beside a trace, unless the file has them and --set the trace; and
/// what --set gives without what it needs, such as keys of prefixes where no request shares one, which a file may keep
/// for when it is there.
[[nodiscard]] Result<void> check_effects(const LoadedScenario& loaded);

/// The name of what a run's folder is called after: no path, and not empty.
[[nodiscard]] Result<void> check_file_name(const Origins& origins, const std::string& name);

}  // namespace wattle::config
