#pragma once
// Files of FREESH's release, looked up in WATTLE_DATA: what workers carry and draw, and the peaks that were expected.
// Errors: no such file, a column missing, a number out of range.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/pools_problem.h"
#include "policy/routing/weighted_round_robin.h"

namespace wattle::systems {

/// Of one partition, by "SS A100 TP2". Idle power is not in there: 0.3 of the peak (Figure 15).
[[nodiscard]] Result<std::map<std::string, plan::WorkerRating>> read_ratings(const std::string& file,
                                                                             const std::string& partition);

/// What a worker has in flight at its rating: rate times latency (Little). Pools are numbered as types come in the
/// file.
[[nodiscard]] Result<std::vector<policy::InFlightBound>> read_bounds(const std::string& file,
                                                                     const std::string& partition);

/// Requests per second by type and slot, from row `from` on: one column each (SS, SL, LS, LL), or all columns together
/// where there is one type.
[[nodiscard]] Result<std::vector<std::vector<double>>> read_demand(const std::string& file, std::int32_t from,
                                                                   std::size_t types);

/// As the release calls it: "a100-80g" is A100.
[[nodiscard]] std::string released_kind(const std::string& gpu);

}  // namespace wattle::systems
