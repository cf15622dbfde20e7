#pragma once
// The fleet that a planner wants, and the steps that lead there.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/instance.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// The bounds that a planner gets from the planner above it, or passes to the one below. All are inclusive.
struct Mandate {
  std::optional<PoolId> pool;      ///< none: the whole fleet
  std::int32_t gpus = 0;           ///< maximum number of GPUs; 0: unlimited
  double load_per_s = 0.0;         ///< requests per second that it has to carry; 0: whatever arrives
  std::optional<MegaHertz> least;  ///< clocks, none: the instances' own
  std::optional<MegaHertz> most;
  Instant until = Instant::never();  ///< valid until then or until the next one
};

/// The cost of a step, as far as the planner knows.
struct StepCost {
  Joules energy;                 ///< in addition to that of serving
  Span time;                     ///< from its beginning to its end
  double lost_load_per_s = 0.0;  ///< by which the load that the fleet carries falls meanwhile, requests per second
};

enum class StepKind : std::uint8_t {
  Start,    ///< `to`: one shape, on `node`, into `pool`
  Drain,    ///< `from`: one instance
  Reshard,  ///< `from` instances give their GPUs to new ones of shapes `to`
  Move,     ///< `from`: one instance; an equal one starts on `node`, then this one drains
  Reroute,  ///< the plan's weights hold from here on
};

struct PlanStep {
  StepKind kind = StepKind::Start;
  std::vector<InstanceId> from;
  std::vector<std::size_t> to;  ///< shapes
  std::optional<NodeId> node;   ///< none: any
  std::optional<PoolId> pool;   ///< none: the fleet has one; Reshard and Move: that of `from`
  bool serves_on = false;       ///< Reshard: `from` serve until `to` do, memory permitting; else they leave first
  StepCost cost;
};

/// A shape of two engines, a P/D pair: prompts are computed by the first and decoded by the second.
struct PairShape {
  std::size_t prefill = 0, decode = 0;  ///< shapes
};

/// The number of instances of a shape on a node in a pool; none: on any node, in any pool.
struct PlanTarget {
  std::size_t shape = 0;
  std::int32_t count = 0;
  std::optional<NodeId> node;
  std::optional<PoolId> pool;
  double weight = 0.0;  ///< of each new one, in weighted round-robin; 0: its shape's
};

/// The share of a class's requests that goes to a pool. If a class's weights sum to less than 1, the rest is shed.
struct PoolWeight {
  ClassId request_class;
  PoolId pool;
  double weight = 0.0;
  bool operator==(const PoolWeight&) const = default;
};

/// Each class goes to the pool of its number; if nobody serves there, to the pool of the next larger class, else of the
/// next smaller one. `served`: by class. If nobody serves at all, the result is empty.
[[nodiscard]] inline std::vector<PoolWeight> weights_of_own_pools(const std::vector<bool>& served) {
  std::vector<PoolWeight> weights;
  for (std::size_t c = 0; c < served.size(); ++c) {
    std::size_t at = c;
    while (at < served.size() && !served[at]) ++at;
    if (at == served.size()) {
      for (at = c; at > 0 && !served[at];) --at;
    }
    if (!served[at]) continue;
    weights.push_back({ClassId(static_cast<std::int32_t>(c)), PoolId(static_cast<std::int32_t>(at)), 1.0});
  }
  return weights;
}

/// The weights restricted to the `served` pools: what a class has in other pools goes to its served ones in proportion,
/// or if it has none, to the next larger served pool, else to the next smaller one. If nobody serves: empty.
[[nodiscard]] inline std::vector<PoolWeight> weights_where_served(std::span<const PoolWeight> weights,
                                                                  const std::set<PoolId>& served) {
  std::map<ClassId, std::pair<double, double>> sums;  // of all its pools, of those that serve
  for (const PoolWeight& w : weights) {
    auto& [all, there] = sums[w.request_class];
    all += w.weight;
    if (served.contains(w.pool)) there += w.weight;
  }
  std::vector<PoolWeight> kept;
  for (const PoolWeight& w : weights) {
    auto& [all, there] = sums[w.request_class];
    if (there > 0.0) {
      if (served.contains(w.pool)) kept.push_back({w.request_class, w.pool, w.weight * all / there});
    } else if (all > 0.0 && !served.empty()) {
      const auto larger = served.lower_bound(w.pool);
      kept.push_back({w.request_class, larger == served.end() ? *served.rbegin() : *larger, std::exchange(all, 0.0)});
    }
  }
  return kept;
}

/// Instances of the pool keep their clocks within this.
struct ClockRange {
  PoolId pool;
  MegaHertz least;
  MegaHertz most;
  bool operator==(const ClockRange&) const = default;
};

/// One planner's part in a plan that several made, each under what the one above passed to it.
struct PlanLevel {
  const char* name = "";         ///< "cluster", "pool", "instance"
  std::optional<PoolId> pool;    ///< none: the whole fleet
  Instant made;                  ///< it holds from then on, until its next epoch
  std::int64_t gpus = 0;         ///< that it plans; 0: it leaves them to those below
  std::optional<Mandate> given;  ///< what it was made under
  std::vector<Mandate> passed;   ///< to those below
  const char* reason = "";
  std::string detail = {};  ///< the reason's numbers; empty: none
};

/// Steps that follow from the targets alone (start what is missing, drain what is too much) need not be stated; a
/// stated Drain says which instance goes, a stated Start where one comes.
struct Plan {
  std::vector<PlanTarget> instances;
  std::vector<PoolWeight> weights;  ///< empty: any pool is for all
  std::vector<ClockRange> clocks;   ///< empty: no bounds
  std::vector<PlanStep> steps;      ///< in this order, one after the other
  std::optional<Mandate> given;     ///< what it was made under
  std::vector<Mandate> passed;      ///< to those below
  std::vector<PlanLevel> levels;    ///< of nested planners, topmost first; empty: one planner made all of it
  const char* reason = "";
  std::string problem;  ///< what it does not carry or keep, and what stands in the way; empty: nothing

  /// Reason and problem as text for people.
  [[nodiscard]] std::string why() const { return problem.empty() ? reason : std::string(reason) + "; " + problem; }
  /// So many instances of each shape, anywhere.
  [[nodiscard]] static Plan of(const std::vector<std::int32_t>& counts, const char* reason) {
    Plan plan;
    for (std::size_t s = 0; s < counts.size(); ++s) plan.instances.push_back({s, counts[s], {}, {}});
    plan.reason = reason;
    return plan;
  }
  /// Number of instances wanted of each shape, on any node.
  [[nodiscard]] std::vector<std::int32_t> wanted(std::size_t shapes) const {
    std::vector<std::int32_t> counts(shapes, 0);
    for (const PlanTarget& target : instances) {
      if (target.shape < shapes) counts[target.shape] += target.count;
    }
    return counts;
  }
};

/// An instance as planners see it.
struct FleetMember {
  InstanceId id;
  std::size_t shape = 0;
  Phase phase = Phase::Spawning;
  Instant since;  ///< of the phase
  PoolId pool{};
  NodeId node{};
  std::vector<std::int32_t> gpus = {};  ///< of the node, counted from 0; empty: nodes are not accounted for
  bool changing = false;                ///< it is part of a step in progress: leave it alone
  /// The decode instance of a pair; all other members describe the prefill instance.
  struct Half {
    InstanceId id;
    NodeId node{};
    std::vector<std::int32_t> gpus = {};
  };
  std::optional<Half> decode = {};
  bool outdated = false;  ///< it was started with other options than instances get now: to be replaced

  /// `instance` is this one, or one of this pair.
  [[nodiscard]] bool is(InstanceId instance) const { return id == instance || (decode && decode->id == instance); }
  [[nodiscard]] NodeId node_of(InstanceId half) const { return half == id || !decode ? node : decode->node; }
};

/// A node as planners see it.
struct NodeView {
  NodeId id;
  std::int32_t gpus = 0;
  std::int32_t free_gpus = 0;
  bool up = true;
};

}  // namespace wattle
