#pragma once
// How GPUs are split into instances: DynamoLLM's optimisation (HPCA 2025, equation 1) over one pool or over all classes
// at once, and the hierarchy of controllers that approximates the latter (section IV-B).
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/shard_profile.h"
#include "units/quantity.h"

namespace wattle::plan {

/// A class of requests with a pool of its own. Classes are ordered from smallest to largest: a request may be served in
/// the next larger class's pool.
struct ShardClass {
  std::string name;
  double load_per_s = 0.0;  ///< expected, requests per second
  ShardLimits limits;
  std::vector<ShardProfile> profiles;
  double load_in_next = 1.0;  ///< load of one of its requests on the next larger pool, in that pool's requests
  bool forwards = true;       ///< its requests may be planned into the next larger pool
  std::size_t next = 1;       ///< offset of the next larger class (tiers of the same size lie between)
};

struct ShardingProblem {
  std::vector<ShardClass> classes;
  int gpus = 8;
  Watts unused_gpu;  ///< power of a GPU without an instance
  /// GPUs per node: only as many nodes are in use as hold the instances, and only their unused GPUs draw power; 0: all
  /// do.
  int gpus_per_node = 0;
};

struct ShardingOptions {
  /// Assume that instances run at their highest clock, as pool managers do.
  bool top_clock_only = false;
  double relative_gap = 1e-4;
  std::optional<int> nodes = std::nullopt;
  std::optional<Span> time = std::nullopt;
};

/// The instances of one TP degree in one pool: all at the same clock with equal shares of the load (section IV-A).
struct InstanceGroup {
  std::size_t pool = 0;  ///< index of the class
  int tp = 1;
  MegaHertz clock;
  int instances = 0;
  double load_per_s = 0.0;  ///< requests per second on each
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
  std::vector<double> forwarded_per_s;  ///< by class: requests per second sent on to the next larger pool
  std::vector<double> shed_per_s;       ///< by class, requests per second
  Watts power;                          ///< of all GPUs, including unused ones (of nodes in use)
  Watts bound;                          ///< lower bound on the power of plans with this status
  int nodes = 0;
  [[nodiscard]] bool found() const { return status != ShardingStatus::Unsolved; }
};

/// Equation 1 over all classes; with a single class, one pool. Errors: inconsistent profiles or numbers.
[[nodiscard]] Result<ShardingPlan> plan_sharding(const ShardingProblem& problem, const ShardingOptions& options = {});

/// What the cluster manager gives a class's pool; loads in the class's requests per second.
struct NodeShare {
  int nodes = 0;
  double arriving_per_s = 0.0;  ///< its own load and what the smaller pool forwards
  double forwarded_per_s = 0.0;
  double shed_per_s = 0.0;
};

enum class NodeRounding : std::uint8_t {
  Down,  ///< floor(load / what a node carries), the rest goes to the next larger pool; the largest pool, and one that
         ///< does not forward, rounds up
  Up,    ///< each pool carries all of its own load; Down if there are too few nodes for that and it sheds less
};

/// The TP degree of instances with which a node's capacity is computed: the largest that fits; 0: none does.
[[nodiscard]] int node_tp(const std::vector<ShardProfile>& profiles, int gpus_per_node);

/// The rule of section IV-B: a node's capacity is that of the largest TP degree that fits on it, at the highest clock.
/// A class that no configuration serves forwards everything. If nodes run out, the smallest classes are served first.
[[nodiscard]] std::vector<NodeShare> share_nodes(const ShardingProblem& problem, int gpus_per_node,
                                                 NodeRounding rounding = NodeRounding::Down);

/// Which level decides what.
struct LevelOptions {
  int gpus_per_node = 8;
  /// The cluster manager gives pools what equation 1 over all classes gives them, in GPUs; false: nodes by
  /// share_nodes().
  bool cluster_solves_whole = false;
  /// Pool managers assume that instances run at their highest clock.
  bool pools_at_top_clock = true;
};

/// The hierarchy's answer to the same problem. Cluster: as above; the defaults are the paper's. Pool: equation 1 on its
/// GPUs. Instance: the clock of least power within the limits.
[[nodiscard]] Result<ShardingPlan> plan_by_levels(const ShardingProblem& problem, const LevelOptions& levels = {},
                                                  const ShardingOptions& options = {});

}  // namespace wattle::plan
