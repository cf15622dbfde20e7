#pragma once
// What decides at a gateway, of a recipe.
#include "base/error.h"
#include "experiment/live_fleet.h"
#include "gateway/options.h"

namespace wattle::apps {

/// The recipe's policies for workers that may come and go. `fleet` outlives the result. Errors: the recipe needs
/// something of the agents, the workers' options or a scenario that is missing.
Result<gateway::GatewayPolicies> make_policies(experiment::LiveFleet& fleet, const gateway::GatewayOptions& options);

}  // namespace wattle::apps
