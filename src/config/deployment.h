#pragma once
// wattle.toml describes one deployment: it states once what gateway, agents and planner must agree on. Each process
// takes its flags from it; flags on the command line take precedence.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/fill.h"
#include "config/option.h"

namespace wattle::config {

/// A flag and its place in the file.
struct FlagText {
  std::string name;  ///< "--listen"
  std::string value;
  std::string where;  ///< file:line
};

/// The beliefs that all processes share: [fleet].
struct DeploymentFleet {
  std::string recipe;
  std::string gpu;
  std::string llm;
  std::string scenario;
  std::vector<std::string> set;     ///< key=value
  std::vector<std::string> models;  ///< names that clients may ask for
};

/// [slo]; 0: none.
struct DeploymentSlo {
  double ttft_ms = 0.0;
  double itl_ms = 0.0;
  double tbt_ms = 0.0;
  double e2e_ms = 0.0;
};

/// One machine with GPUs and its agent: [[node]].
struct DeploymentNode {
  std::string name;
  std::string agent;           ///< HOST:PORT of its admin plane
  double watt_budget_w = 0.0;  ///< limit on the power of all its GPUs together; 0: none
};

/// One engine: [[worker]].
struct DeploymentWorker {
  std::string url;
  std::string role = "colocated";
  std::string node;               ///< empty: the only one
  std::vector<std::string> gpus;  ///< of that node, by index or UUID
  std::string step_reports;       ///< ZeroMQ endpoint; empty: none, and agents know it by its URL
  std::string load;               ///< "orca": asked for with each request; empty: its gauges are read
  std::int32_t bootstrap_port = 0;
  std::string site;
  std::string pool;
};

class Deployment {
 public:
  /// Errors: not TOML, an unknown key, a worker's node that is not in the file; each with file and line.
  [[nodiscard]] static Result<Deployment> from_text(std::string_view text, const std::string& file);
  [[nodiscard]] static Result<Deployment> load(const std::string& file);

  [[nodiscard]] std::vector<FlagText> gateway() const;
  /// `node`: a name; empty: the only node. Errors: there is no such node, or several and none is named.
  [[nodiscard]] Result<std::vector<FlagText>> agent(const std::string& node) const;
  [[nodiscard]] std::vector<FlagText> planner() const;
  [[nodiscard]] const std::vector<DeploymentNode>& nodes() const { return nodes_; }
  [[nodiscard]] bool has_planner() const { return !planner_.empty(); }
  /// The command line of each process of the deployment, flag by flag.
  [[nodiscard]] std::string effective_text() const;

 private:
  /// Flags for recipe, scenario and overrides; the second also has the beliefs about the hardware.
  [[nodiscard]] std::vector<FlagText> common() const;
  [[nodiscard]] std::vector<FlagText> believed() const;
  void add_fleet(std::vector<FlagText>& to, const std::string& key, const std::string& value) const;
  void add_engine(std::vector<FlagText>& to) const;
  [[nodiscard]] Result<std::size_t> node_of(const std::string& name, const std::string& where) const;

  std::string file_;
  DeploymentFleet fleet_;
  DeploymentSlo slo_;
  std::vector<FlagText> engine_;
  std::vector<DeploymentNode> nodes_;
  std::vector<DeploymentWorker> workers_;
  std::vector<std::size_t> worker_nodes_;   ///< by worker
  std::vector<std::string> worker_names_;   ///< net::engine_name, by worker
  std::vector<std::string> worker_wheres_;  ///< by worker
  std::vector<std::string> node_wheres_;
  /// The contents of [gateway], [agent] and [planner]: flags of that process, with `_` for `-`.
  std::vector<FlagText> gateway_;
  std::vector<FlagText> agent_;
  std::vector<FlagText> planner_;
  Origins origins_;
};

/// Records of its sections, for the reference.
[[nodiscard]] const std::vector<Option<DeploymentFleet>>& deployment_fleet_options();
[[nodiscard]] const std::vector<Option<DeploymentSlo>>& deployment_slo_options();
[[nodiscard]] const std::vector<Option<DeploymentNode>>& deployment_node_options();
[[nodiscard]] const std::vector<Option<DeploymentWorker>>& deployment_worker_options();

}  // namespace wattle::config
