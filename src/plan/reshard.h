#pragma once
// From one sharding of a model over GPUs to another: which weights stay, what moves over which link, which instances
// serve meanwhile. DynamoLLM (HPCA 2025), section IV-C and table VI.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "units/time.h"

namespace wattle::plan {

/// An instance on its GPUs: gpus[j] holds the j-th of gpus.size() equal shards of the weights.
struct PlacedInstance {
  std::vector<int> gpus;
  bool operator==(const PlacedInstance&) const = default;
};

/// An instance to be placed: `tp` GPUs of one node.
struct WantedInstance {
  int tp = 1;
  int node = 0;
};

struct ReshardProblem {
  int gpus_per_node = 8;
  int nodes = 1;  ///< GPU g is on node g / gpus_per_node
  std::vector<PlacedInstance> present;
  std::vector<WantedInstance> next;

  std::int64_t weight_bytes = 0;  ///< of the whole model
  int slices = 8;                 ///< the weights move in this many equal parts, or in as many as the layouts need
  double link_bytes_per_s = 300e9;
  double host_bytes_per_s = 25e9;  ///< for weights that no GPU of the node holds
  Span sync = Span::s(1);          ///< the engine's own start after the weights are in place

  std::int64_t gpu_bytes = 0;      ///< memory of one GPU; 0: not checked, old instances continue to serve
  std::int64_t kv_in_use = 0;      ///< KV cache that a present instance needs on each of its GPUs to continue
  std::int64_t kv_at_start = 0;    ///< KV cache that a next instance needs on each of its GPUs to begin
  std::int64_t runtime_bytes = 0;  ///< of one engine process on each of its GPUs, in addition to weights and KV cache
};

/// A transfer of weights on one link. Links between different pairs of GPUs work in parallel; each link has one
/// transfer at a time.
struct Transfer {
  int from = 0;  ///< GPU; -1: the host
  int to = 0;
  int first_slice = 0, slices = 0;  ///< slices of the weights, ReshardPlan::slices_per_model in all
  std::int64_t bytes = 0;
  Span start, finish;
};

/// What happens to a present instance.
struct OldInstance {
  bool unchanged = false;        ///< same GPUs, same shards
  bool serves_on = true;         ///< until the new ones are ready; false: it stops before anything moves
  double throughput_lost = 0.0;  ///< share of its throughput while weights move and engines start
  std::string reason;
};

struct ReshardPlan {
  std::vector<PlacedInstance> placed;  ///< the next instances, in the order of the request
  int slices_per_model = 1;            ///< lcm of ReshardProblem::slices and all TP degrees
  std::vector<Transfer> transfers;     ///< by destination, source, start
  Span transfer_time;                  ///< until the last weight is in place
  Span total_time;                     ///< transfers and the start of the engines; 0 if nothing changes
  std::vector<OldInstance> old;        ///< by present instance
};

/// Places the next instances by a maximum-weight matching of their shards to GPUs (weight: bytes already there), then
/// distributes each missing slice over the GPUs that hold it so that the busiest link finishes soonest. As in table VI,
/// each pair of GPUs has its own link, which is optimistic for a GPU that sends to several. Errors: a GPU used twice or
/// outside the nodes, more GPUs requested of a node than it has, sizes below 1.
[[nodiscard]] Result<ReshardPlan> plan_reshard(const ReshardProblem& problem);

}  // namespace wattle::plan
