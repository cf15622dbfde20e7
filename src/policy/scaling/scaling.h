#pragma once
// How many instances of which shape should run: the slowest of the four kinds of decision.
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
  double max_load_per_s = 0.0;  ///< requests per second that one instance carries without long tail latencies
  Span spawn_time;              ///< from the command until it serves
  PoolId pool{};                ///< the pool of an instance for which the plan states none
  std::vector<NodeId> nodes{};  ///< nodes on which it can run; empty: any
  Role role = Role::Colocated;  ///< other roles are halves of pairs, and serve only in pairs
  std::optional<PairShape> pair{};
};

/// The present instances of one shape, without gone ones.
struct ShapeCount {
  std::int32_t coming = 0;  ///< started, not yet serving
  std::int32_t serving = 0;
  std::int32_t draining = 0;
  Instant serving_since;  ///< when the newest of them began to serve
};

/// What a scaling policy may see. Spans are valid during the call.
struct ScalingView {
  Instant now;
  /// Requests per second in the last period, by request class; at least one entry; classes above the highest ever seen
  /// are missing.
  std::span<const double> rate_per_s;
  std::span<const ShapeCount> fleet;  ///< by shape
  std::span<const FleetMember> members = {};
  std::span<const NodeView> nodes = {};      ///< empty: GPUs are not accounted for
  std::span<const PoolWeight> weights = {};  ///< in force
  std::span<const ClockRange> clocks = {};   ///< in force
  const TurnedOut* turned_out = nullptr;     ///< requests that have finished since the last call; null: unknown
};

/// Asked periodically, and at once when a node fails or returns, or when an instance begins to serve while the weights
/// in force shed load. One object per fleet. Its plans have at least one instance.
class ScalingPolicy : public virtual Policy {
 public:
  virtual Plan plan(const ScalingView& view) = 0;
};

}  // namespace wattle::policy
