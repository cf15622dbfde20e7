#include "config/nodes.h"

#include <algorithm>
#include <cmath>

#include "config/service.h"
#include "config/sites.h"

namespace wattle::config {

std::vector<Node> nodes_of(const Scenario& scenario) {
  std::vector<Node> nodes;
  for (const NodeOptions& kind : scenario.nodes) {
    for (std::int32_t i = 0; i < kind.count; ++i) {
      const SiteId site = kind.site.empty() ? SiteId() : site_named(scenario, kind.site);
      nodes.push_back({NodeId(static_cast<std::int32_t>(nodes.size())), kind.name, kind.gpu, kind.gpus, site});
    }
  }
  return nodes;
}

std::vector<NodeId> nodes_for(const Scenario& scenario, std::size_t p) {
  const PoolOptions& pool = scenario.pools[p];
  const std::string& home = pool.site.empty() && !scenario.sites.empty() ? scenario.sites.front().name : pool.site;
  std::vector<NodeId> nodes;
  std::int32_t next = 0;
  for (const NodeOptions& kind : scenario.nodes) {
    const bool fits = (kind.gpu.empty() || kind.gpu == pool.gpu) && (kind.site.empty() || kind.site == home);
    for (std::int32_t i = 0; i < kind.count; ++i, ++next) {
      if (fits) nodes.emplace_back(next);
    }
  }
  return nodes;
}

std::vector<PairShape> pairs_of(const Scenario& scenario) {
  std::vector<PairShape> pairs;
  const auto& pools = scenario.pools;
  for (std::size_t p = 0; p < pools.size(); ++p) {
    if (pools[p].role != Role::Prefill) continue;
    for (std::size_t d = 0; d < pools.size(); ++d) {
      const bool decodes = pools[d].role == Role::Decode;
      if (decodes && site_of(scenario, pools[d]) == site_of(scenario, pools[p])) pairs.push_back({p, d});
    }
  }
  return pairs;
}

std::vector<std::size_t> instances_of(std::size_t shape, const Scenario& scenario) {
  if (shape < scenario.pools.size()) return {shape};
  const PairShape pair = pairs_of(scenario)[shape - scenario.pools.size()];
  return {pair.decode, pair.prefill};
}

std::vector<Milliwatts> idle_gpus_of(const Scenario& scenario) {
  std::vector<Milliwatts> watts;
  for (const NodeOptions& kind : scenario.nodes) {
    watts.insert(watts.end(), static_cast<std::size_t>(kind.count), to_milliwatts(kind.idle_gpu));
  }
  return watts;
}

plan::ReshardProblem reshard_problem(const LoadedScenario& loaded) {
  const ReshardOptions& said = loaded.scenario.reshard;
  const auto bytes = [](double value) { return static_cast<std::int64_t>(std::llround(value)); };
  plan::ReshardProblem problem;
  problem.weight_bytes = bytes(loaded.llm.weight_bytes());
  problem.link_bytes_per_s = said.link_bytes_per_s;
  problem.host_bytes_per_s = said.host_bytes_per_s;
  problem.sync = said.sync;
  problem.kv_in_use = bytes(said.kv_in_use_bytes);
  problem.kv_at_start = bytes(said.kv_at_start_bytes);
  for (std::size_t p = 0; p < loaded.gpus.size(); ++p) {
    const auto engine = engine_of(loaded.scenario, loaded.scenario.pools[p]);
    const std::int64_t memory = bytes(loaded.gpus[p].memory_bytes * engine.gpu_memory_utilization);
    problem.gpu_bytes = p == 0 ? memory : std::min(problem.gpu_bytes, memory);
    problem.runtime_bytes = std::max(problem.runtime_bytes, bytes(engine.activation_bytes_per_gpu));
  }
  return problem;
}

Cluster cluster_of(const LoadedScenario& loaded) {
  const Scenario& scenario = loaded.scenario;
  const auto nodes = nodes_of(scenario);
  const auto idle = idle_gpus_of(scenario);
  std::vector<bool> ours(nodes.size(), false);
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    for (const NodeId id : nodes_for(scenario, p)) ours[static_cast<std::size_t>(id.value())] = true;
  }
  Cluster cluster;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!ours[n]) continue;
    cluster.node_gpus.push_back(nodes[n].gpus);
    cluster.unused_gpu = std::max(cluster.unused_gpu, to_watts(idle[n]));
  }
  if (nodes.empty()) {
    std::int32_t all = 0;
    std::int32_t largest = 1;
    for (const PoolOptions& pool : scenario.pools) {
      all += pool.gpus() * pool.count;
      largest = std::max(largest, pool.gpus());
    }
    cluster.node_gpus.assign(static_cast<std::size_t>(all / largest), largest);
  }
  cluster.reshard = reshard_problem(loaded);
  return cluster;
}

}  // namespace wattle::config
