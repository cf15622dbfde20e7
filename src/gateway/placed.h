#pragma once
#include <optional>

#include "model/plan.h"
#include "model/request.h"

namespace wattle::gateway {

/// What holds for an instance because of the pool that it serves in.
struct Placed {
  PoolId pool;
  std::optional<ClockRange> range = {};  ///< the clocks that a plan lets it have; none: any
  std::optional<Slo> objectives = {};    ///< that it has to keep at present; none: those of all requests
};

}  // namespace wattle::gateway
