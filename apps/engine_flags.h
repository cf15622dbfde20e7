#pragma once
// Flags of an engine's scheduling and KV cache, the same for the mock engine, which implements them, and for agent and
// gateway, whose beliefs follow from them.
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

/// --recipe (default: the one in `options`), --set, --gpu, --llm and those of the engine. `options` outlives the
/// parsing.
void add_fleet_flags(Command command, experiment::LiveFleetOptions& options);

/// That clocks may keep to, ms; 0: none.
struct ClockObjectives {
  double ttft_ms = 0.0;
  double itl_ms = 0.0;
  double tbt_ms = 0.0;
  double e2e_ms = 0.0;
};

/// Facts of the fleet by name that gateway and agents must agree on and compare (AgentLinksOptions, AgentOptions).
[[nodiscard]] std::map<std::string, std::string> fleet_facts(const experiment::LiveFleetOptions& options,
                                                             const systems::Recipe& recipe,
                                                             const ClockObjectives& objectives);

/// --config: a deployment file, read before the flags are (main.cc). `file` outlives the parsing.
void add_config_flag(Command command, std::string& file);
/// --check: validates flags and --config, prints errors and starts nothing.
void add_check_flag(Command command, bool& check);

}  // namespace wattle::apps
