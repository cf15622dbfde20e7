#pragma once
// A worker's models, site and pool, resolved from names. Pure, so that workers at the start, added ones and merely
// checked ones are refused alike.
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

/// `classes`: those of requests. Errors: an unknown model, site, pool or class. `where` is the flag that described the
/// worker or, if that is empty, the key at fault ("models", "site", "pool", "type").
[[nodiscard]] Result<WorkerPlace> place_of(const WorkerOptions& worker, const GatewayOptions& options,
                                           const Classifier& classes, std::string_view flag);

}  // namespace wattle::gateway
