#pragma once
// What a fleet's executor, its pool managers and its cluster manager say to each other, as JSON
// (docs/plan-protocol.md). Times are on the sender's clock, which each message says ("now_ns"), and are put on the
// receiver's as it arrives: clocks of controllers may differ by anything.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "managers/cluster_level.h"
#include "policy/scaling/scaling.h"

namespace wattle::planner {

/// What an executor observes, with what its spans point to.
struct Observation {
  Instant now;
  std::vector<double> rate_per_s;  ///< by class
  std::vector<FleetMember> members;
  std::vector<NodeView> nodes;
  std::vector<PoolWeight> weights;
  std::vector<ClockRange> clocks;
  std::vector<policy::ShapeCount> counts;
  TurnedOut turned_out;
  /// Valid as long as this is.
  [[nodiscard]] policy::ScalingView view() const {
    return {now, rate_per_s, counts, members, nodes, weights, clocks, &turned_out};
  }
};

/// Of an object that says `turned_out` (rows of counts, by the class taken for and what it was) and `late` (counts by
/// the class taken for), or neither.
[[nodiscard]] Result<TurnedOut> turned_out_from_json(const nlohmann::ordered_json& json);

[[nodiscard]] std::string to_json(const Observation& seen);
/// `shapes`, `classes`: so many there are. Errors, as of all of these: bad input, with the key.
[[nodiscard]] Result<Observation> observation_from_json(std::string_view text, std::size_t shapes, std::size_t classes,
                                                        Instant now);

/// A plan, or one manager's part of it, with its levels.
[[nodiscard]] std::string to_json(const Plan& plan, Instant now);
[[nodiscard]] Result<Plan> part_from_json(std::string_view text, Instant now);

[[nodiscard]] std::string to_json(const managers::ClusterObservation& seen);
[[nodiscard]] Result<managers::ClusterObservation> cluster_observation_from_json(std::string_view text,
                                                                                 std::size_t pools,
                                                                                 std::size_t classes);

[[nodiscard]] std::string to_json(const managers::ClusterMandate& mandate, Instant now);
[[nodiscard]] Result<managers::ClusterMandate> mandate_from_json(std::string_view text, std::size_t pools, Instant now);

}  // namespace wattle::planner
