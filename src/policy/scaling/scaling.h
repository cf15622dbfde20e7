#pragma once
// How many instances of which shape should run: the slowest of the four decisions.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/instance.h"
#include "model/plan.h"
#include "model/turned_out.h"
#include "policy/policy.h"

namespace wattle::policy {

/// A kind of instance that can be started. Plans name it by its position among the fleet's shapes.
struct Shape {
  std::int32_t gpus = 1;
  double max_load_per_s = 0.0;  ///< requests per second one instance carries without long tail latencies
  Span spawn_time;              ///< from the command until it serves
  PoolId pool{};                ///< where one goes whose pool no plan states
  std::vector<NodeId> nodes{};  ///< it can stand there alone; empty: anywhere
  Role role = Role::Colocated;  ///< others are halves of pairs, and serve in none alone
  std::optional<PairShape> pair{};
};

/// The instances of one shape now. Gone ones are not counted.
struct ShapeCount {
  std::int32_t coming = 0;  ///< started, not serving yet
  std::int32_t serving = 0;
  std::int32_t draining = 0;
  Instant serving_since;  ///< the newest of the serving ones
};

/// What a scaling policy may see. Spans are valid during the call.
struct ScalingView {
  Instant now;
  /// Requests per second that arrived in the last of the periods at which it is asked, by request class; at least one
  /// entry, and none for classes above the highest that was ever seen.
  std::span<const double> rate_per_s;
  std::span<const ShapeCount> fleet;  ///< by shape
  std::span<const FleetMember> members = {};
  std::span<const NodeView> nodes = {};      ///< empty: not accounted for
  std::span<const PoolWeight> weights = {};  ///< in force
  std::span<const ClockRange> clocks = {};   ///< in force
  const TurnedOut* turned_out = nullptr;     ///< what has finished since it was last asked; null: not known
};

/// Asked periodically, and at once when a node has gone or come back, or an instance begins to serve while weights in
/// force shed something. One object per fleet. Wants at least one instance.
class ScalingPolicy : public virtual Policy {
 public:
  virtual Plan plan(const ScalingView& view) = 0;
};

}  // namespace wattle::policy
