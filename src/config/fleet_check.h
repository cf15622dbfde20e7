#pragma once
// Whether a scenario's fleet can serve its model.
#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// Memory, tensor-parallel degree, roles, duplicate pools. The first problem, at its line.
[[nodiscard]] Result<void> check_fleet(const LoadedScenario& loaded);

}  // namespace wattle::config
