#pragma once
// What decides at a gateway, of a recipe.
#include "base/error.h"
#include "experiment/live_fleet.h"
#include "gateway/options.h"

namespace wattle::apps {

/// The recipe over whatever workers there come to be. `fleet` outlives what is returned. Errors: what the recipe needs
/// of the agents, the options' workers or a scenario, and lacks.
Result<gateway::GatewayPolicies> make_policies(experiment::LiveFleet& fleet, const gateway::GatewayOptions& options);

}  // namespace wattle::apps
