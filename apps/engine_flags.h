#pragma once
// The flags that say how an engine schedules and stores, alike for everyone who has to know: the mock engine, which
// does it, and agent and gateway, which believe it.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine/options.h"

namespace wattle::apps {

/// `options` outlives the parsing.
void add_engine_flags(CLI::App& command, engine::EngineOptions& options);
/// The same as arguments for a child process.
[[nodiscard]] std::vector<std::string> engine_arguments(const engine::EngineOptions& options);

}  // namespace wattle::apps
