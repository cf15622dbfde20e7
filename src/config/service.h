#pragma once
// What a scenario says of its service: classes, tiers, tenants and pools, as both drivers take them.
#include <string>
#include <string_view>
#include <vector>

#include "config/scenario.h"
#include "model/fleet.h"
#include "model/objectives.h"

namespace wattle::config {

/// Null: the borders ascend. Else what is wrong.
[[nodiscard]] const char* flaw_of(const ClassOptions& options);
[[nodiscard]] Classifier classifier_of(const ClassOptions& options);
/// Between blanks.
[[nodiscard]] std::vector<std::string> words_of(std::string_view text);
/// Between commas, without blanks around them.
[[nodiscard]] std::vector<std::string> names_of(std::string_view text);

/// Of a scenario whose names have been checked. `classes`: a recipe's, which then sorts requests instead; objectives
/// stay those of the scenario's classes.
[[nodiscard]] Service make_service(const Scenario& scenario, const ClassOptions& classes = {});

/// By name; 0 for an empty one.
[[nodiscard]] SiteId site_named(const Scenario& scenario, std::string_view name);
[[nodiscard]] PoolId pool_named(const Scenario& scenario, std::string_view name);

}  // namespace wattle::config
