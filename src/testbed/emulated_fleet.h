#pragma once
// The fleet that `wattle up` runs: mock engines, agent, gateway and, if the fleet scales, a planner, as processes of
// this binary that communicate over loopback; their GPUs are virtual.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "launch/admin_call.h"
#include "launch/child.h"
#include "testbed/working_folder.h"

namespace wattle::testbed {

/// An engine, or a place where a planner may start one.
struct FleetEngine {
  std::string url;  ///< empty: a planner's
  std::string fpm;  ///< where it publishes forward-pass metrics
  Role role = Role::Colocated;
  std::vector<std::string> gpus;
  std::string site;  ///< name; empty: the first
};

/// The fleet's configuration.
struct FleetPlan {
  const config::LoadedScenario& scenario;
  std::string config;  ///< the scenario's name or file, for processes that load it themselves
  std::string recipe;
  std::vector<std::string> set;  ///< all overrides, as they were given
  std::string contract;          ///< between prefill and decode engines: nixl or sglang
  std::string journal;           ///< run directory the gateway writes; empty: none
  std::uint16_t port = 0;
  std::uint16_t admin_port = 0;
  bool scales = false;  ///< a planner starts and ends engines, each in a place of its own
};

/// The fleet, its processes and their files in `folder`; the destructor ends and removes them.
class EmulatedFleet {
 public:
  explicit EmulatedFleet(WorkingFolder folder) : working_(std::move(folder)), folder_(working_.path()) {}
  ~EmulatedFleet();
  EmulatedFleet(const EmulatedFleet&) = delete;
  EmulatedFleet& operator=(const EmulatedFleet&) = delete;

  /// Fails if this machine cannot emulate such a fleet, or a port is taken; called before slow preparations. Errors:
  /// those of build().
  [[nodiscard]] static Result<void> check(const config::LoadedScenario& scenario, bool scales,
                                          const std::vector<std::uint16_t>& ports);
  /// Ends the gateway first, then the agent and the planner, then the engines.
  void end();
  /// Starts everything; returns when the gateway has a live engine of each role. Errors: a fleet that this machine
  /// cannot emulate, a process that does not start (with the last line of its log).
  [[nodiscard]] Result<void> build(const FleetPlan& plan);
  /// The GPUs of each engine that runs now.
  [[nodiscard]] std::vector<std::vector<std::string>> running();
  /// Does some engine start or drain just now? Never where there is no planner.
  [[nodiscard]] bool switching();
  /// What the gateway's ledger has booked so far. None: no response, or no meter has been read yet.
  struct Booked {
    double energy_j = 0.0;
    double gpu_s = 0.0;
    double unmetered_s = 0.0;  ///< of its engines; energy drawn in that time is not in energy_j
  };
  [[nodiscard]] std::optional<Booked> booked();
  [[nodiscard]] const std::string& gateway_url() const { return gateway_url_; }
  [[nodiscard]] const std::string& admin_url() const { return admin_url_; }
  /// A process that should run and does not, or null.
  [[nodiscard]] const launch::Child* dead();

 private:
  /// The one line of JSON in which a process says where it listens.
  Result<nlohmann::json> launch(const std::string& name, const std::vector<std::string>& arguments);
  nlohmann::json planned();  ///< the planner's engines, from its API
  Result<void> emulate_gpus(const FleetPlan& plan);
  Result<void> place_engines(const FleetPlan& plan);
  void reserve(std::size_t pool, std::int32_t first_gpu, NodeId node, const FleetPlan& plan);
  Result<void> start_engine(const FleetPlan& plan, const config::PoolOptions& pool, FleetEngine& engine);
  Result<void> start_control(const FleetPlan& plan);
  Result<void> start_planner(const FleetPlan& plan);

  WorkingFolder working_;
  std::filesystem::path folder_;
  std::vector<launch::Child> children_;
  std::vector<FleetEngine> engines_;
  std::string gateway_url_;
  std::string admin_url_;
  std::vector<std::string> slots_;  ///< the planner's arguments
  std::string planner_url_;         ///< empty: no planner
  std::unique_ptr<launch::AdminCaller> caller_;
};

/// Whether a fleet that scales is still in its first transition, in which old and new engines draw power for the same
/// load.
class FirstSwitch {
 public:
  explicit FirstSwitch(bool scales) : over_(!scales) {}
  void look(EmulatedFleet& fleet);
  [[nodiscard]] bool under_way() const { return begun_ && !over_; }

 private:
  bool begun_ = false;
  bool over_ = false;
};

}  // namespace wattle::testbed
