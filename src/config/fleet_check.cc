#include "config/fleet_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "config/nodes.h"
#include "control/gpu_slots.h"

namespace wattle::config {
namespace {

std::string pool_key(std::size_t index, std::string_view key) { return fmt::format("fleet.{}.{}", index, key); }

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

Memory memory_of(const LoadedScenario& loaded, std::size_t pool, std::int32_t tensor_parallel) {
  const GpuSpec& gpu = loaded.gpus[pool];
  const engine::EngineOptions engine = engine_of(loaded.scenario, loaded.scenario.pools[pool]);
  Memory m;
  m.weights_bytes = loaded.llm.weight_bytes();
  m.available_bytes =
      tensor_parallel * (gpu.memory_bytes * engine.gpu_memory_utilization - engine.activation_bytes_per_gpu);
  const double replication = std::max(1.0, static_cast<double>(tensor_parallel) / loaded.llm.kv_heads);
  m.kv_bytes_per_token = loaded.llm.kv_bytes_per_token() * replication;
  return m;
}

/// The smallest degree that splits the heads and leaves room for KV; 0 when none does.
std::int32_t smallest_fitting(const LoadedScenario& loaded, std::size_t pool, double kv_tokens) {
  for (std::int32_t tp = 1; tp <= loaded.llm.heads; ++tp) {
    const Memory m = memory_of(loaded, pool, tp);
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

Result<void> check_pool(const LoadedScenario& loaded, std::size_t index) {
  const Scenario& scenario = loaded.scenario;
  const PoolOptions& pool = scenario.pools[index];
  const LlmSpec& llm = loaded.llm;
  if (!splits_heads(llm, pool.tensor_parallel)) {
    return bad_input(loaded.origins.of(pool_key(index, "tensor_parallel")),
                     fmt::format("tensor_parallel {} does not divide the {} heads and {} KV heads of {} evenly",
                                 pool.tensor_parallel, llm.heads, llm.kv_heads, llm.name));
  }
  const Memory m = memory_of(loaded, index, pool.tensor_parallel);
  constexpr double kGb = 1e9;
  if (m.weights_bytes > m.available_bytes) {
    return bad_input(loaded.origins.of(pool_key(index, "tensor_parallel")),
                     fmt::format("impossible fleet: the weights of {} need {:.1f} GB, {} x {} have {:.1f} GB for them "
                                 "({:.0f} % of memory less {:.1f} GB each); {}",
                                 llm.name, m.weights_bytes / kGb, pool.tensor_parallel, pool.gpu,
                                 std::max(0.0, m.available_bytes) / kGb, 100.0 * scenario.engine.gpu_memory_utilization,
                                 engine_of(scenario, pool).activation_bytes_per_gpu / kGb, remedy(loaded, index, 0.0)));
  }
  // One request of the largest size must fit alone, or it could never be served.
  const double largest = static_cast<double>(scenario.workload.max_prompt_tokens) +
                         static_cast<double>(scenario.workload.max_output_tokens) + scenario.engine.block_size;
  const double room = std::floor((m.available_bytes - m.weights_bytes) / m.kv_bytes_per_token);
  if (room < largest) {
    return bad_input(loaded.origins.of(pool_key(index, "tensor_parallel")),
                     fmt::format("impossible fleet: after the weights of {} ({:.1f} GB) {} x {} keep the KV of {:.0f} "
                                 "tokens, and one request may need {:.0f}; {}, or lower workload.max_prompt_tokens",
                                 llm.name, m.weights_bytes / kGb, pool.tensor_parallel, pool.gpu, room, largest,
                                 remedy(loaded, index, largest)));
  }
  for (std::size_t other = 0; other < index; ++other) {
    const PoolOptions& o = scenario.pools[other];
    if (o.role == pool.role && o.gpu == pool.gpu && o.tensor_parallel == pool.tensor_parallel &&
        o.weight == pool.weight && o.site == pool.site && o.pool == pool.pool) {
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
    return bad_input(at(std::max(colocated, prefill)),
                     "colocated pools beside prefill and decode pools; a fleet is either the one or the other");
  }
  return {};
}

/// Nodes have room for what the run begins with, placed as the plan executor does; a fault says what dies.
Result<void> check_nodes(const LoadedScenario& loaded) {
  const Scenario& scenario = loaded.scenario;
  for (std::size_t f = 0; f < scenario.faults.size(); ++f) {
    const FaultOptions& fault = scenario.faults[f];
    const auto where = loaded.origins.of(fmt::format("fault.{}", f));
    if (fault.node.has_value() == fault.instance.has_value()) {
      return bad_input(where, "a fault is of a node or of an instance; state one of the two");
    }
    const auto nodes = nodes_of(scenario);
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
      const auto place = slots.place(p, scenario.pools[p].tensor_parallel, std::nullopt, nodes_for(scenario, p));
      if (!place) {
        return bad_input(
            loaded.origins.of(pool_key(p, "count")),
            fmt::format("no [[node]] has {} free GPUs for instance {} of this pool; add nodes, or lower count",
                        scenario.pools[p].tensor_parallel, i));
      }
      slots.take(place->node, place->gpus);
    }
  }
  return {};
}

}  // namespace

Result<void> check_fleet(const LoadedScenario& loaded) {
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

}  // namespace wattle::config
