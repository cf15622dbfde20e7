#pragma once
// Where a worker stands among what the gateway knows by name: its models, its site and its pool. Pure, so that what
// starts, what is added later and what is only checked are refused alike.
#include <string_view>

#include "control/fleet_loop.h"
#include "gateway/options.h"
#include "model/classifier.h"

namespace wattle::gateway {

struct WorkerPlace {
  control::ModelMask models = control::kEveryModel;
  SiteId site;
  PoolId pool;
};

/// `classes`: those that requests are of. Errors: a model, site, pool or class that the gateway has not. Their `where`
/// is the flag that described the worker or, where that is empty, the key of its description that is at fault
/// ("models", "site", "pool", "type").
[[nodiscard]] Result<WorkerPlace> place_of(const WorkerOptions& worker, const GatewayOptions& options,
                                           const Classifier& classes, std::string_view flag);

}  // namespace wattle::gateway
