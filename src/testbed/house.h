#pragma once
// The house `wattle up` builds: mock engines, agent, gateway and, where engines come and go, a planner, as processes of
// this binary that speak over loopback; their GPUs are virtual.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "launch/admin_call.h"
#include "launch/child.h"

namespace wattle::testbed {

/// An engine, or a place where a planner may start one.
struct HouseEngine {
  std::string url;  ///< empty: a planner's
  std::string fpm;  ///< where it publishes forward-pass metrics
  Role role = Role::Colocated;
  std::vector<std::string> gpus;
  std::string site;  ///< name; empty: the first
};

/// What the house is built from.
struct HousePlan {
  const config::LoadedScenario& scenario;
  std::string config;  ///< the scenario's name or file, for processes that load it themselves
  std::string recipe;
  std::vector<config::Override> recipe_overrides;
  std::vector<std::string> set;  ///< all overrides, as they were given
  std::string contract;          ///< between prefill and decode engines: nixl or sglang
  std::string journal;           ///< run directory the gateway writes; empty: none
  std::uint16_t port = 0;
  std::uint16_t admin_port = 0;
  bool scales = false;  ///< engines come and go under a planner, each in its own place
};

/// The fleet, its processes and their files; ends and removes them when it goes.
class House {
 public:
  explicit House(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~House();
  House(const House&) = delete;
  House& operator=(const House&) = delete;

  /// Front to back: no new requests, then nobody to change clocks, then the engines.
  void end();
  /// Starts everything; returns once the gateway knows a live engine of each role. Errors: a fleet this machine cannot
  /// emulate, a process that does not come up (with its last words).
  [[nodiscard]] Result<void> build(const HousePlan& plan);
  /// Which of engines() run now; all of them in a house without a planner.
  [[nodiscard]] std::vector<bool> running();
  /// Does some engine start or drain just now? Never in a house without a planner.
  [[nodiscard]] bool switching();
  /// What the gateway's ledger has booked so far. Nothing: it does not answer, or no meter has been read yet.
  struct Booked {
    double energy_j = 0.0;
    double gpu_s = 0.0;
  };
  [[nodiscard]] std::optional<Booked> booked();
  [[nodiscard]] const std::string& gateway_url() const { return gateway_url_; }
  [[nodiscard]] const std::string& admin_url() const { return admin_url_; }
  [[nodiscard]] const std::vector<HouseEngine>& engines() const { return engines_; }
  /// A process that should run and does not, or null.
  [[nodiscard]] const launch::Child* dead();

 private:
  /// The one line of JSON in which a process says where it listens.
  Result<nlohmann::json> launch(const std::string& name, const std::vector<std::string>& arguments);
  nlohmann::json planned();  ///< the planner's engines, as it tells them
  Result<void> emulate_gpus(const HousePlan& plan);
  Result<void> place_engines(const HousePlan& plan);
  Result<void> reserve(std::size_t pool, HouseEngine& engine);
  Result<void> start_engine(const HousePlan& plan, const config::PoolOptions& pool, HouseEngine& engine);
  Result<void> start_control(const HousePlan& plan);
  Result<void> start_planner(const HousePlan& plan);

  std::filesystem::path folder_;
  std::vector<launch::Child> children_;
  std::vector<HouseEngine> engines_;
  std::string gateway_url_;
  std::string admin_url_;
  std::vector<std::string> slots_;  ///< the planner's arguments
  std::string planner_url_;         ///< empty: no planner
  std::unique_ptr<launch::AdminCaller> caller_;
};

}  // namespace wattle::testbed
