#pragma once
// The part of a plan that a gateway carries out, as a planner puts it to /plan (docs/plan-protocol.md). Pure.
#include <cstdint>
#include <expected>
#include <string_view>
#include <vector>

#include "model/plan.h"
#include "net/openai.h"
#include "units/time.h"

namespace wattle::gateway {

struct PutPlan {
  std::vector<PoolWeight> weights;
  std::vector<ClockRange> clocks;
  Span lease;  ///< of the clock ranges
};

/// Leases of clock ranges may last from a millisecond to this.
inline constexpr Span kLongestPlanLease = Span::s(3600);
/// Pools and nodes that a plan or a worker names are below this.
inline constexpr std::int32_t kMostPools = 4096;

/// {"weights": [{"class", "pool", "weight"}], "clocks": [{"pool", "least_mhz", "most_mhz"}], "lease_ms"}. Errors, each
/// with the key at fault: what is missing or of another kind; a class this gateway does not sort requests into (it has
/// `classes`); weights of a class above 1; an empty range, or two of a pool.
[[nodiscard]] std::expected<PutPlan, net::ApiError> read_plan(std::string_view body, std::int32_t classes);

}  // namespace wattle::gateway
