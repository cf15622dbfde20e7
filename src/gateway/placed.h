#pragma once
#include <optional>

#include "model/plan.h"
#include "model/request.h"

namespace wattle::gateway {

/// Bounds and objectives of an instance because of its pool.
struct Placed {
  PoolId pool;
  std::optional<ClockRange> range = {};  ///< the clocks that a plan permits; none: any
  std::optional<Slo> objectives = {};    ///< that it has to keep at present; none: those of all requests
};

}  // namespace wattle::gateway
