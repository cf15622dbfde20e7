#pragma once
// The part of a plan that a gateway carries out, as a planner sends it to PUT /plan (docs/plan-protocol.md). Pure.
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

/// Longest lease of clock ranges; the shortest is a millisecond.
inline constexpr Span kLongestPlanLease = Span::s(3600);
/// Ids of pools and nodes in plans and workers are below this.
inline constexpr std::int32_t kMostPools = 4096;

/// {"weights": [{"class", "pool", "weight"}], "clocks": [{"pool", "least_mhz", "most_mhz"}], "lease_ms"}. Errors, with
/// the key at fault: a missing key or wrong type; a class that this gateway does not use (it has `classes`); weights of
/// a class that sum to more than 1; an empty range, or two of one pool.
[[nodiscard]] std::expected<PutPlan, net::ApiError> read_plan(std::string_view body, std::int32_t classes);

}  // namespace wattle::gateway
