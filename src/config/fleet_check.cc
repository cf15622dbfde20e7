#include "config/fleet_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "config/nodes.h"
#include "control/gpu_slots.h"
#include "engine/shape_check.h"

namespace wattle::config {
namespace {

std::string pool_key(std::size_t index, std::string_view key) { return fmt::format("fleet.{}.{}", index, key); }

/// Where what these keys of a pool and `others` of the scenario make together was written.
std::string place_of(const LoadedScenario& loaded, std::size_t pool, std::initializer_list<const char*> keys,
                     std::initializer_list<const char*> others = {}) {
  std::vector<std::string> all;
  for (const char* key : keys) all.push_back(pool_key(pool, key));
  all.insert(all.end(), others.begin(), others.end());
  return loaded.origins.of_one(all);
}

/// Engines replicate KV heads beyond one per GPU, and split them evenly below.
bool splits_heads(const LlmSpec& llm, std::int32_t tensor_parallel) {
  if (llm.heads % tensor_parallel != 0) return false;
  return llm.kv_heads % tensor_parallel == 0 || tensor_parallel % llm.kv_heads == 0;
}

struct Memory {
  double weights_bytes = 0.0;    ///< of the whole instance
  double available_bytes = 0.0;  ///< for weights and KV together, of the whole instance
  double kv_bytes_per_token = 0.0;
};

Memory memory_of(const LoadedScenario& loaded, std::size_t pool, const Parallelism& parallel) {
  const GpuSpec& gpu = loaded.gpus[pool];
  const engine::EngineOptions engine = engine_of(loaded.scenario, loaded.scenario.pools[pool]);
  const double gpus = parallel.gpus();
  Memory m;
  m.weights_bytes = gpus * parallel.weight_bytes(loaded.llm);
  m.available_bytes = gpus * (gpu.memory_bytes * engine.gpu_memory_utilization - engine.activation_bytes_per_gpu);
  // A data group keeps its own requests' KV alone.
  m.kv_bytes_per_token = gpus / parallel.data * parallel.kv_bytes_per_token(loaded.llm);
  return m;
}

/// The smallest TP degree that divides the heads and leaves room for KV with the same shape otherwise; 0: none.
std::int32_t smallest_fitting(const LoadedScenario& loaded, std::size_t pool, double kv_tokens) {
  for (std::int32_t tp = 1; tp <= loaded.llm.heads; ++tp) {
    Parallelism parallel = loaded.scenario.pools[pool].parallelism();
    parallel.tensor = tp;
    const Memory m = memory_of(loaded, pool, parallel);
    if (splits_heads(loaded.llm, tp) && m.available_bytes >= m.weights_bytes + kv_tokens * m.kv_bytes_per_token) {
      return tp;
    }
  }
  return 0;
}

std::string remedy(const LoadedScenario& loaded, std::size_t pool, double kv_tokens) {
  const std::int32_t tp = smallest_fitting(loaded, pool, kv_tokens);
  return tp > 0 ? fmt::format("the smallest tensor_parallel that fits is {}", tp)
                : std::string("no tensor_parallel fits; choose a GPU with more memory");
}

/// Power limits and idle power of the pool's GPU. Drivers refuse limits below a quarter of the TDP (A100: 100 of 400 W,
/// H100: 200 of 700), and the hardware model is not valid below.
Result<void> check_watts(const LoadedScenario& loaded, std::size_t index) {
  const GpuSpec& gpu = loaded.gpus[index];
  const auto& engine = loaded.scenario.engine;
  if (engine.power_limit && !(*engine.power_limit >= gpu.tdp * 0.25 && *engine.power_limit <= gpu.tdp)) {
    return bad_input(loaded.origins.of("engine.power_limit_w"),
                     fmt::format("{} takes a power limit from {} W to its TDP of {} W", gpu.name,
                                 gpu.tdp.value() * 0.25, gpu.tdp.value()));
  }
  if (engine.idle_gpu && *engine.idle_gpu >= gpu.tdp) {
    return bad_input(loaded.origins.of("engine.idle_gpu_w"),
                     fmt::format("an idle {} draws less than its TDP of {} W", gpu.name, gpu.tdp.value()));
  }
  return {};
}

Result<void> check_pool(const LoadedScenario& loaded, std::size_t index) {
  const Scenario& scenario = loaded.scenario;
  const PoolOptions& pool = scenario.pools[index];
  const LlmSpec& llm = loaded.llm;
  if (!splits_heads(llm, pool.tensor_parallel)) {
    return bad_input(place_of(loaded, index, {"tensor_parallel"}, {"llm"}),
                     fmt::format("tensor_parallel {} does not divide the {} heads and {} KV heads of {} evenly",
                                 pool.tensor_parallel, llm.heads, llm.kv_heads, llm.name));
  }
  const auto shaped = place_of(
      loaded, index, {"gpu", "tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel"}, {"llm"});
  if (auto ok = engine::check_shape(shaped, llm, pool.parallelism()); !ok) return ok;
  if (auto ok = check_watts(loaded, index); !ok) return ok;
  const Memory m = memory_of(loaded, index, pool.parallelism());
  constexpr double kGb = 1e9;
  const auto filled = [&](std::initializer_list<const char*> others) {
    return place_of(
        loaded, index,
        {"tensor_parallel", "gpu", "pipeline_parallel", "expert_parallel", "data_parallel", "activation_gb_per_gpu"},
        others);
  };
  if (m.weights_bytes > m.available_bytes) {
    return bad_input(filled({"engine.gpu_memory_utilization", "engine.activation_gb_per_gpu", "llm"}),
                     fmt::format("impossible fleet: the weights of {} need {:.1f} GB, {} x {} have {:.1f} GB for them "
                                 "({:.0f} % of memory less {:.1f} GB each); {}",
                                 llm.name, m.weights_bytes / kGb, pool.gpus(), pool.gpu,
                                 std::max(0.0, m.available_bytes) / kGb, 100.0 * scenario.engine.gpu_memory_utilization,
                                 engine_of(scenario, pool).activation_bytes_per_gpu / kGb, remedy(loaded, index, 0.0)));
  }
  // One request of the largest size must fit alone, or it could never be served.
  const double largest = static_cast<double>(scenario.workload.max_prompt_tokens) +
                         static_cast<double>(scenario.workload.max_output_tokens) + scenario.engine.block_size;
  const double room = std::floor((m.available_bytes - m.weights_bytes) / m.kv_bytes_per_token);
  if (room < largest) {
    return bad_input(
        filled({"engine.gpu_memory_utilization", "engine.activation_gb_per_gpu", "llm", "workload.max_prompt_tokens",
                "workload.max_output_tokens", "engine.block_size"}),
        fmt::format("impossible fleet: after the weights of {} ({:.1f} GB) {} x {} keep the KV of {:.0f} "
                    "tokens, and one request may need {:.0f}; {}, or lower workload.max_{}_tokens",
                    llm.name, m.weights_bytes / kGb, pool.gpus(), pool.gpu, room, largest,
                    remedy(loaded, index, largest),
                    scenario.workload.max_output_tokens > scenario.workload.max_prompt_tokens ? "output" : "prompt"));
  }
  for (std::size_t other = 0; other < index; ++other) {
    const PoolOptions& o = scenario.pools[other];
    if (o.role == pool.role && o.gpu == pool.gpu && o.parallelism() == pool.parallelism() && o.weight == pool.weight &&
        o.site == pool.site && o.pool == pool.pool) {
      return bad_input(loaded.origins.of(fmt::format("fleet.{}", index)),
                       fmt::format("duplicate pool: the same role, gpu, tensor_parallel and weight as the one at {}; "
                                   "raise that one's count instead",
                                   loaded.origins.of(fmt::format("fleet.{}", other))));
    }
  }
  return {};
}

Result<void> check_roles(const LoadedScenario& loaded) {
  const std::vector<PoolOptions>& pools = loaded.scenario.pools;
  if (std::ranges::all_of(pools, [](const PoolOptions& pool) { return pool.count == 0; })) {
    return bad_input(loaded.origins.of(pool_key(0, "count")),
                     "no instance to begin with; a scaling policy starts others, but some [[fleet]] needs count >= 1");
  }
  const auto first = [&](Role role) {
    return static_cast<std::size_t>(std::ranges::find(pools, role, &PoolOptions::role) - pools.begin());
  };
  const std::size_t prefill = first(Role::Prefill);
  const std::size_t decode = first(Role::Decode);
  const std::size_t colocated = first(Role::Colocated);
  const auto at = [&](std::size_t index) { return loaded.origins.of(pool_key(index, "role")); };
  if (prefill < pools.size() && decode == pools.size()) {
    return bad_input(at(prefill), "a prefill pool without a decode pool; add a [[fleet]] with role = \"decode\"");
  }
  if (decode < pools.size() && prefill == pools.size()) {
    return bad_input(at(decode), "a decode pool without a prefill pool; add a [[fleet]] with role = \"prefill\"");
  }
  if (colocated < pools.size() && prefill < pools.size()) {
    const auto begins = [](const PoolOptions& pool) { return pool.role != Role::Colocated && pool.count > 0; };
    const auto beside = static_cast<std::size_t>(std::ranges::find_if(pools, begins) - pools.begin());
    if (beside == pools.size()) return {};  // a plan may start pairs of them
    return bad_input(loaded.origins.of(pool_key(beside, "count")),
                     "a fleet begins either with colocated instances or with prefill and decode ones; beside colocated "
                     "ones those have count = 0, and a plan starts pairs of them (scaling.pairs)");
  }
  // Colocated instances may be added by a plan; those of a split fleet are not scaled.
  for (const std::size_t role : {prefill, decode}) {
    if (role == pools.size()) continue;
    const auto begins = [&](const PoolOptions& pool) { return pool.role == pools[role].role && pool.count > 0; };
    if (std::ranges::any_of(pools, begins)) continue;
    return bad_input(loaded.origins.of(pool_key(role, "count")),
                     fmt::format("no {} instance, and a fleet of prefill and decode instances is not scaled; some "
                                 "[[fleet]] of each role needs count >= 1",
                                 role == prefill ? "prefill" : "decode"));
  }
  return {};
}

/// Nodes must have room for the initial instances, placed as the plan executor does, and faults must name existing
/// ones.
Result<void> check_nodes(const LoadedScenario& loaded) {
  const Scenario& scenario = loaded.scenario;
  for (std::size_t f = 0; f < scenario.faults.size(); ++f) {
    const FaultOptions& fault = scenario.faults[f];
    const auto where = loaded.origins.of(fmt::format("fault.{}", f));
    if (fault.node.has_value() == fault.instance.has_value()) {
      return bad_input(where, "a fault is of a node or of an instance; state one of the two");
    }
    const auto nodes = nodes_of(scenario);
    if (fault.node && nodes.empty()) {
      return bad_input(where, "no [[node]] is stated, so that none can die; a fault may be of an instance");
    }
    if (fault.node && static_cast<std::size_t>(*fault.node) >= nodes.size()) {
      return bad_input(
          where, fmt::format("there is no node {}; the scenario has {}, counted from 0", *fault.node, nodes.size()));
    }
  }
  for (std::size_t n = 0; n < scenario.nodes.size(); ++n) {
    const auto& site = scenario.nodes[n].site;
    if (site.empty() || std::ranges::find(scenario.sites, site, &SiteOptions::name) != scenario.sites.end()) continue;
    return bad_input(loaded.origins.of(fmt::format("node.{}.site", n)),
                     fmt::format("there is no [[site]] \"{}\"", site));
  }
  for (std::size_t p = 0; !scenario.nodes.empty() && p < scenario.pools.size(); ++p) {
    if (!nodes_for(scenario, p).empty()) continue;
    return bad_input(loaded.origins.of(pool_key(p, "gpu")), "no [[node]] is of this pool's GPU and site");
  }
  control::GpuSlots slots(nodes_of(scenario));
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    for (std::int32_t i = 0; i < scenario.pools[p].count; ++i) {
      const auto place = slots.place(p, scenario.pools[p].gpus(), std::nullopt, nodes_for(scenario, p));
      if (!place) {
        return bad_input(
            loaded.origins.of(pool_key(p, "count")),
            fmt::format("no [[node]] has {} free GPUs for instance {} of this pool; add nodes, or lower count",
                        scenario.pools[p].gpus(), i));
      }
      slots.take(place->node, place->gpus);
    }
  }
  return {};
}

}  // namespace

Result<void> check_fleet(const LoadedScenario& loaded) {
  const engine::EngineOptions& engine = loaded.scenario.engine;
  if (engine.speculative_tokens == 0 && (engine.acceptance_rate > 0.0 || engine.draft_share > 0.0)) {
    const char* key = engine.acceptance_rate > 0.0 ? "engine.acceptance_rate" : "engine.draft_share";
    return bad_input(loaded.origins.of(key), "nothing is drafted; set engine.speculative_tokens to 1 or more");
  }
  if (engine.speculative_tokens >= engine.max_num_batched_tokens) {
    return bad_input(loaded.origins.of("engine.speculative_tokens"),
                     "one request's drafts would be more than a step may compute; raise max_num_batched_tokens");
  }
  if (std::ranges::adjacent_find(loaded.scenario.engine.graph_sizes, std::greater_equal{}) !=
      loaded.scenario.engine.graph_sizes.end()) {
    return bad_input(loaded.origins.of("engine.graph_sizes"), "graph_sizes must ascend, each size once");
  }
  for (std::size_t i = 0; i < loaded.scenario.pools.size(); ++i) {
    if (auto ok = check_pool(loaded, i); !ok) return ok;
  }
  if (auto ok = check_roles(loaded); !ok) return ok;
  return check_nodes(loaded);
}

Result<void> check_tensor_parallel_only(const LoadedScenario& loaded, std::string_view who) {
  for (std::size_t p = 0; p < loaded.scenario.pools.size(); ++p) {
    const Parallelism shape = loaded.scenario.pools[p].parallelism();
    if (shape == Parallelism(shape.tensor)) continue;
    return bad_input(
        place_of(loaded, p, {"gpu", "pipeline_parallel", "expert_parallel", "data_parallel"}),
        fmt::format("{} supports tensor_parallel only; pipeline_parallel, expert_parallel and data_parallel "
                    "are for simulated fleets without it",
                    who));
  }
  return {};
}

}  // namespace wattle::config
