#pragma once
// How GPUs are split into instances: DynamoLLM's optimisation (HPCA 2025, equation 1) over one pool or over all classes
// at once, and the hierarchy of controllers that stands in for the latter (section IV-B).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "plan/shard_profile.h"
#include "units/quantity.h"

namespace wattle::plan {

/// A class of requests with a pool of its own. Classes are ordered from smallest to largest: a request may be served in
/// the pool of the next larger class.
struct ShardClass {
  std::string name;
  double load_per_s = 0.0;  ///< expected, requests per second
  ShardLimits limits;
  std::vector<ShardProfile> profiles;
  double load_in_next = 1.0;  ///< load that one of its requests is to the next larger pool, in that pool's requests
  bool forwards = true;       ///< its requests may be planned into the next larger pool
  std::size_t next = 1;       ///< which that is: so many classes further on (tiers of the same size lie between)
};

struct ShardingProblem {
  std::vector<ShardClass> classes;
  int gpus = 8;
  Watts unused_gpu;  ///< power of a GPU without an instance
  /// Only as many nodes of so many GPUs are in use as hold the instances, and only their unused GPUs draw; 0: all do.
  int gpus_per_node = 0;
};

struct ShardingOptions {
  /// Pool managers assume that the level below runs at the highest clock.
  bool top_clock_only = false;
  double relative_gap = 1e-4;
  std::optional<int> nodes = std::nullopt;
  std::optional<Span> time = std::nullopt;
};

/// Instances of one TP degree in one pool: all at the same clock and with the same share of load (section IV-A).
struct InstanceGroup {
  std::size_t pool = 0;  ///< index of the class
  int tp = 1;
  MegaHertz clock;
  int instances = 0;
  double load_per_s = 0.0;  ///< on each
  Watts power;              ///< of each
};

enum class ShardingStatus : std::uint8_t {
  Planned,   ///< all load within limits
  Shed,      ///< as much load as the GPUs carry
  Unsolved,  ///< the solver's limit was reached first
};

struct ShardingPlan {
  ShardingStatus status = ShardingStatus::Unsolved;
  std::string reason;
  std::vector<InstanceGroup> groups;    ///< ordered by pool, then TP
  std::vector<double> forwarded_per_s;  ///< by class: requests sent on to the next larger pool
  std::vector<double> shed_per_s;       ///< by class
  Watts power;                          ///< of all GPUs, unused ones (of nodes in use) included
  Watts bound;                          ///< no plan of this status draws less
  int nodes = 0;
  [[nodiscard]] bool found() const { return status != ShardingStatus::Unsolved; }
};

/// Equation 1 over all classes; with a single class, one pool. Errors: profiles or numbers that make no sense.
[[nodiscard]] Result<ShardingPlan> plan_sharding(const ShardingProblem& problem, const ShardingOptions& options = {});

/// What the cluster manager gives a class's pool, loads in the class's requests per second.
struct NodeShare {
  int nodes = 0;
  double arriving_per_s = 0.0;  ///< its own and what the smaller pool sends on
  double forwarded_per_s = 0.0;
  double shed_per_s = 0.0;
};

enum class NodeRounding : std::uint8_t {
  Down,  ///< floor(load / what a node carries), what is left over goes to the next larger pool; the largest, and one
         ///< that does not forward, rounds up
  Up,    ///< every pool carries all of its own load; Down where there are too few nodes for that and it sheds less
};

/// The TP degree of instances at which a node is counted: the largest that fits on it; 0: none does.
[[nodiscard]] int node_tp(const std::vector<ShardProfile>& profiles, int gpus_per_node);

/// Section IV-B's rule: what a node carries is taken at the largest TP degree that fits on it and the highest clock. A
/// class that no configuration serves sends all on. Where nodes run out, the smallest classes are served first.
[[nodiscard]] std::vector<NodeShare> share_nodes(const ShardingProblem& problem, int gpus_per_node,
                                                 NodeRounding rounding = NodeRounding::Down);

/// Who decides what in the hierarchy.
struct LevelOptions {
  int gpus_per_node = 8;
  /// The cluster manager gives pools what equation 1 over all classes gives them, in GPUs; else nodes by share_nodes.
  bool cluster_solves_whole = false;
  /// The pool managers take it that instances run at their highest clock.
  bool pools_at_top_clock = true;
};

/// The hierarchy's answer to the same problem. Cluster: as above; the defaults are the paper's. Pool: equation 1 on the
/// GPUs it was given. Instance: of the clocks within limits, the one that draws least.
[[nodiscard]] Result<ShardingPlan> plan_by_levels(const ShardingProblem& problem, const LevelOptions& levels = {},
                                                  const ShardingOptions& options = {});

}  // namespace wattle::plan
