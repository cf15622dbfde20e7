#pragma once
// The option records of all kinds of input files. docs/reference/ is generated from these.
#include <vector>

#include "config/option.h"
#include "config/scenario.h"
#include "model/hardware.h"

namespace wattle::config {

/// All keys of a scenario except those of sections that are repeated.
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
[[nodiscard]] const std::vector<Option<ClassSloOptions>>& class_slo_options();
[[nodiscard]] const std::vector<Option<TierOptions>>& tier_options();
[[nodiscard]] const std::vector<Option<TenantOptions>>& tenant_options();
[[nodiscard]] const std::vector<Option<ServingPoolOptions>>& serving_pool_options();
/// Keys of [classes], without the section: scenarios and recipes have it.
[[nodiscard]] const std::vector<Option<ClassOptions>>& class_options();

/// Calls f(section, what an element is, options, the scenario's member) for every section that is repeated.
template <typename F>
void for_each_list(F&& f) {
  f("fleet", "pool", pool_options(), &Scenario::pools);
  f("site", "site", site_options(), &Scenario::sites);
  f("node", "node", node_options(), &Scenario::nodes);
  f("fault", "fault", fault_options(), &Scenario::faults);
  f("class", "class", class_slo_options(), &Scenario::class_slos);
  f("tier", "tier", tier_options(), &Scenario::tiers);
  f("tenant", "tenant", tenant_options(), &Scenario::tenants);
  f("pool", "pool", serving_pool_options(), &Scenario::serving_pools);
}

[[nodiscard]] const std::vector<Option<GpuSpec>>& gpu_options();
[[nodiscard]] const std::vector<Option<LlmSpec>>& llm_options();

}  // namespace wattle::config
