#pragma once
// The part of a plan that a gateway carries out, as a planner sends it to PUT /plan (docs/plan-protocol.md). Pure.
#include <cstdint>
#include <deque>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "model/plan.h"
#include "net/openai.h"
#include "units/time.h"

namespace wattle::gateway {

struct PutPlan {
  std::vector<PoolWeight> weights;
  std::vector<ClockRange> clocks;
  Span lease;           ///< of the clock ranges
  std::string planner;  ///< the sender's unique name; empty: it has none
};

/// Of planners that each send a plan again and again the newest one's holds, until it has sent none for a lease:
/// weights do not change back and forth, and one that is started again need not wait for its predecessor's lease.
class NewestPlanner {
 public:
  /// False: a newer one's plan holds. Plans without a name always do.
  bool takes(const PutPlan& plan, Instant now);

 private:
  static constexpr std::size_t kReplacedKept = 64;
  std::string newest_;
  Instant until_;
  std::deque<std::string> replaced_;  ///< meanwhile
};

/// Longest lease of clock ranges; the shortest is a millisecond.
inline constexpr Span kLongestPlanLease = Span::s(3600);
/// Ids of pools and nodes in plans and workers are below this.
inline constexpr std::int32_t kMostPools = 4096;

/// {"weights": [{"class", "pool", "weight"}], "clocks": [{"pool", "least_mhz", "most_mhz"}], "lease_ms", "planner"}.
/// Errors, with the key at fault: a missing key or wrong type; a class that this gateway does not use (it has
/// `classes`); weights of a class that sum to more than 1; an empty range, or two of one pool.
[[nodiscard]] std::expected<PutPlan, net::ApiError> read_plan(std::string_view body, std::int32_t classes);

}  // namespace wattle::gateway
