#pragma once
// Whether a scenario's fleet can serve its model.
#include <string_view>

#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// Memory, tensor-parallel degree, roles, duplicate pools. The first problem, at its line.
[[nodiscard]] Result<void> check_fleet(const LoadedScenario& loaded);

/// For what knows tensor parallelism alone (`who`): the first pool that is shared among GPUs in another way.
[[nodiscard]] Result<void> check_tensor_parallel_only(const LoadedScenario& loaded, std::string_view who);

}  // namespace wattle::config
