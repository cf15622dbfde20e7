#pragma once
// The option records of every file a person writes. docs/reference/ is generated from these.
#include <vector>

#include "config/option.h"
#include "config/scenario.h"
#include "model/hardware.h"

namespace wattle::config {

/// All keys of a scenario except those of its lists.
[[nodiscard]] const std::vector<Option<Scenario>>& scenario_options();
/// Keys of one [[fleet]] element, as "fleet.role".
[[nodiscard]] const std::vector<Option<PoolOptions>>& pool_options();
/// Keys of one [[site]] element, as "site.name".
[[nodiscard]] const std::vector<Option<SiteOptions>>& site_options();
/// Keys of a scenario's [engine], as "block_size".
[[nodiscard]] const std::vector<Option<engine::EngineOptions>>& engine_options();
/// Keys of one [[node]] element, as "node.gpus".
[[nodiscard]] const std::vector<Option<NodeOptions>>& node_options();
/// Keys of one [[fault]] element, as "fault.at_s".
[[nodiscard]] const std::vector<Option<FaultOptions>>& fault_options();
[[nodiscard]] const std::vector<Option<GpuSpec>>& gpu_options();
[[nodiscard]] const std::vector<Option<LlmSpec>>& llm_options();

}  // namespace wattle::config
