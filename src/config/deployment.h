#pragma once
// wattle.toml: one deployment. What gateway, agents and planner have to agree on stands in it once; each process takes
// its flags from it, and a flag that is given on the command line holds instead.
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

/// A flag and where the file says it.
struct FlagText {
  std::string name;  ///< "--listen"
  std::string value;
  std::string where;  ///< file:line
};

/// What all of them believe: [fleet].
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
  double watt_budget_w = 0.0;  ///< what its GPUs may draw together; 0: anything
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
  /// Errors: not TOML, an unknown key, a worker's node that does not stand here; each with file and line.
  [[nodiscard]] static Result<Deployment> from_text(std::string_view text, const std::string& file);
  [[nodiscard]] static Result<Deployment> load(const std::string& file);

  [[nodiscard]] std::vector<FlagText> gateway() const;
  /// Of the node named; empty: the only one. Errors: there is no such node, or more than one and none named.
  [[nodiscard]] Result<std::vector<FlagText>> agent(const std::string& node) const;
  [[nodiscard]] std::vector<FlagText> planner() const;
  [[nodiscard]] const std::vector<DeploymentNode>& nodes() const { return nodes_; }
  [[nodiscard]] bool has_planner() const { return !planner_.empty(); }
  /// The command line of each process that has something to do here, flag by flag.
  [[nodiscard]] std::string effective_text() const;

 private:
  /// Recipe, scenario and overrides; and with what is believed of the hardware.
  [[nodiscard]] std::vector<FlagText> common() const;
  [[nodiscard]] std::vector<FlagText> believed() const;
  void add_fleet(std::vector<FlagText>& to, const std::string& key, const std::string& value) const;
  void add_engine(std::vector<FlagText>& to, std::initializer_list<std::pair<const char*, double>> objectives) const;
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
  /// What is written under [gateway], [agent] and [planner]: flags of that process, `_` for `-`.
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
