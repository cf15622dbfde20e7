#pragma once
// How an engine schedules and stores, as arguments for a child process (`wattle mock-engine`, agent and gateway).
#include <string>
#include <vector>

#include "engine/options.h"

namespace wattle::launch {

[[nodiscard]] std::vector<std::string> engine_arguments(const engine::EngineOptions& options);

}  // namespace wattle::launch
