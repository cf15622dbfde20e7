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
};

struct ShardingProblem {
  std::vector<ShardClass> classes;
  int gpus = 8;
  Watts unused_gpu;  ///< power of a GPU without an instance
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
[[nodiscard]] std::string_view sharding_status_name(ShardingStatus status);

struct ShardingPlan {
  ShardingStatus status = ShardingStatus::Unsolved;
  std::string reason;
  std::vector<InstanceGroup> groups;    ///< ordered by pool, then TP
  std::vector<double> forwarded_per_s;  ///< by class: requests sent on to the next larger pool
  std::vector<double> shed_per_s;       ///< by class
  Watts power;                          ///< of all GPUs, unused ones included
  Watts bound;                          ///< no plan of this status draws less
  int nodes = 0;
  [[nodiscard]] bool found() const { return status != ShardingStatus::Unsolved; }
};

/// Equation 1 over all classes; with a single class, one pool. Errors: profiles or numbers that make no sense.
[[nodiscard]] Result<ShardingPlan> plan_sharding(const ShardingProblem& problem, const ShardingOptions& options = {});

/// The hierarchy's answer to the same problem. Cluster: each class gets floor(load / what a node carries at the largest
/// TP and clock) nodes, what is left over goes to the next larger pool, and only the largest rounds up. Pool: equation
/// 1 on those GPUs at the highest clock. Instance: of the clocks within limits, the one that draws least.
[[nodiscard]] Result<ShardingPlan> plan_by_levels(const ShardingProblem& problem, int gpus_per_node,
                                                  const ShardingOptions& options = {});

}  // namespace wattle::plan
