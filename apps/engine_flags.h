#pragma once
// The flags that say how an engine schedules and stores, alike for everyone who has to know: the mock engine, which
// does it, and agent and gateway, which believe it.
#include <map>
#include <string>

#include "command_line.h"

#include "engine/options.h"

namespace wattle::experiment {
struct LiveFleetOptions;
}
namespace wattle::systems {
struct Recipe;
}

namespace wattle::apps {

/// `options` outlives the parsing.
void add_engine_flags(Command command, engine::EngineOptions& options);

/// --recipe (default as it stands in `options`), --set, --gpu, --llm and those of the engine. `options` outlives the
/// parsing.
void add_fleet_flags(Command command, experiment::LiveFleetOptions& options);

/// That clocks may keep to, ms; 0: none.
struct ClockObjectives {
  double ttft_ms = 0.0;
  double itl_ms = 0.0;
  double tbt_ms = 0.0;
};

/// What a process with these flags believes of the fleet, by name: what gateway and agents compare (AgentLinksOptions,
/// AgentOptions).
[[nodiscard]] std::map<std::string, std::string> fleet_facts(const experiment::LiveFleetOptions& options,
                                                             const systems::Recipe& recipe,
                                                             const ClockObjectives& objectives);

/// --config: a deployment file, read before the flags are (main.cc). `file` outlives the parsing.
void add_config_flag(Command command, std::string& file);
/// --check: what is wrong with flags and --config is said, and nothing is started.
void add_check_flag(Command command, bool& check);

}  // namespace wattle::apps
