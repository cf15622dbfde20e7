#pragma once
// The command of an engine in a slot, and how it differs from another one's. Text in, text out.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::planner {

/// Where an engine of one [[fleet]] entry may run.
struct EngineSlot {
  std::size_t pool = 0;
  std::vector<std::string> gpus;
  std::string fpm;  ///< address of its forward-pass metrics, by which agents identify engines
  NodeId node{};
  std::vector<std::int32_t> places = {};  ///< its GPUs' positions among those of the node; set by PlannedFleet
};

/// POOL=GPU[,GPU...]@ENDPOINT[,node=N]; POOL counts the scenario's [[fleet]] entries from 0. Errors name --slot.
[[nodiscard]] Result<EngineSlot> parse_slot(const std::string& text, const config::Scenario& scenario);

/// `load`: how long it loads.
[[nodiscard]] std::vector<std::string> engine_command(const config::LoadedScenario& loaded, const EngineSlot& slot,
                                                      const std::string& name, Span load);

/// The flags in which they differ, for a log line: "--tp 1 instead of 2"; empty: none. How long an engine loads counts
/// for its start alone.
[[nodiscard]] std::string differences(std::span<const std::string> runs, std::span<const std::string> wanted);

}  // namespace wattle::planner
