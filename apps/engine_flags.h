#pragma once
// The flags that say how an engine schedules and stores, alike for everyone who has to know: the mock engine, which
// does it, and agent and gateway, which believe it.
#include "command_line.h"

#include "engine/options.h"

namespace wattle::experiment {
struct LiveFleetOptions;
}

namespace wattle::apps {

/// `options` outlives the parsing.
void add_engine_flags(Command command, engine::EngineOptions& options);

/// --recipe (default as it stands in `options`), --set, --gpu, --llm and those of the engine. `options` outlives the
/// parsing.
void add_fleet_flags(Command command, experiment::LiveFleetOptions& options);

}  // namespace wattle::apps
