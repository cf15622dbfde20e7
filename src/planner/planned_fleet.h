#pragma once
// Carries out a scaling policy with real processes: starts, drains and ends engines, and keeps the gateway informed of
// each. Requests do not pass through here.
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "config/load.h"
#include "control/plan_executor.h"
#include "launch/child.h"
#include "planner/cut_off.h"
#include "planner/engine_command.h"
#include "planner/gateway_admin.h"
#include "planner/given_plan.h"
#include "planner/manager_links.h"
#include "systems/recipe.h"
#include "systems/scaling_inputs.h"

namespace wattle::planner {

class PlannedFleet final : public control::FleetPort, public journal::Sink {
 public:
  struct Options {
    std::string gateway;  ///< URL of its admin plane
    std::string logs;     ///< folder for the engines' stderr
    std::string state;    ///< folder with the state for a successor; empty: engines end with this planner
    /// How long a plan's clock ranges stay in force without this planner; renewed four times as often. Weights do not
    /// expire: by an old plan's weights requests are served, without weights they would miss their objectives.
    Span clock_lease = Span::s(60);
    /// URLs of pool managers in other processes, which plan instead of the recipe's policy.
    std::vector<std::string> managers = {};
    systems::ScalingInputs inputs = {};  ///< inputs of the recipe's policy, except shapes and machines
    std::string gateway_token = {};      ///< token of its admin plane; empty: none is required
    /// A node counts as cut off if the gateway has reached none of its engines for this long: plans leave it out, and
    /// it is tried again after a pause.
    Span cut_off_after = Span::s(10);
    Span cut_off_pause = Span::s(60);
    /// How long the requests of an engine may continue that this planner ends without a plan: all at its own end
    /// (without `state`), and a predecessor's that is on none of its slots.
    Span drain = Span::s(10);
  };
  /// `loaded` outlives this.
  PlannedFleet(const config::LoadedScenario& loaded, std::vector<EngineSlot> slots, Options options);
  ~PlannedFleet() override;  ///< with Options::state engines continue to serve, also after an exception

  /// Adopts a predecessor's engines, and replaces those that would be started otherwise now; if there are none, starts
  /// the scenario's first fleet. A recipe that does not scale is carried out like given(). Errors: another planner uses
  /// Options::state; engines do not come up. In the latter case the engines started here are ended, because an
  /// incomplete first fleet must not be adopted.
  [[nodiscard]] Result<void> begin(const systems::Recipe& recipe);
  /// One turn: checks all engines and the gateway, and acts.
  void turn();
  /// With Options::state engines are left running for the next planner. Otherwise they get no more requests and are
  /// ended when they are empty, or after Options::drain.
  void end();
  /// See given_plan_from_json. A successor inherits the plan. From any thread.
  [[nodiscard]] Result<void> give(const std::string& json);
  /// From any thread.
  [[nodiscard]] std::string fleet_json() const {
    const std::lock_guard lock(mutex_);
    return shown_;
  }

  InstanceId spawn(const control::StartOrder& order, Instant now) override;
  void open(InstanceId instance, Instant now) override;
  void drain(InstanceId instance, Instant) override { at(instance).offered = false; }
  void stop(InstanceId instance, Instant) override;
  void reroute(std::span<const PoolWeight> weights, Instant now) override;
  void bound(std::span<const ClockRange> clocks, Instant now) override;
  void plan(const journal::PlanRecord& record) override;
  void decision(const journal::DecisionRecord& record) override;

 private:
  /// One engine, from its start to its end.
  struct Engine {
    std::size_t slot = 0;
    PoolId pool{};
    double weight = 0.0;                   ///< for weighted round-robin; 0: the gateway's default
    InstanceId decode = kNoInstance;       ///< the decode instance, if this is the prefill engine of a pair
    std::optional<launch::Child> process;  ///< none: it could not be started
    std::string url;                       ///< empty until it has reported where it listens
    Instant up_since = Instant::never();
    std::string worker;        ///< its id at the gateway; empty: not registered yet
    std::string noted;         ///< its entry in the state for a successor
    bool note_failed = false;  ///< the newest entry could not be written
    bool warms =
        true;  ///< it accepts requests spawn.warm after it answers; false: at once, because its weights were in place
    bool over = false;      ///< it has ended
    bool served = false;    ///< it has been offered to the gateway before
    bool offered = false;   ///< it should get requests
    bool accepted = false;  ///< the gateway has confirmed this
    void forget_gateway() {
      worker.clear();
      accepted = false;
    }
  };

  Engine& at(InstanceId id) { return engines_.at(id.value()); }
  [[nodiscard]] Instant now() const;
  InstanceId start(const control::StartOrder& order);
  [[nodiscard]] std::optional<std::size_t> slot_for(const control::StartOrder& order) const;
  [[nodiscard]] std::vector<Node> number_gpus();
  [[nodiscard]] bool meet(const EngineSlot& a, const EngineSlot& b) const;
  void take_over_plan();
  void assert_plan();
  [[nodiscard]] launch::Child::Trace trace_of(const std::string& name) const;
  struct First {
    std::size_t shape;
    PoolId pool;
    double weight = 0.0;
  };
  struct FirstPlan {
    std::vector<First> engines;
    std::vector<PoolWeight> weights;
    bool planned = true;  ///< by managers, as far as there are slots; false: the scenario's own, all of it
  };
  [[nodiscard]] Result<FirstPlan> first_plan(const systems::Recipe& recipe, policy::ScalingPolicy& policy);
  Result<void> begin_first(const FirstPlan& first, Mode mode);
  Result<void> await_ready(InstanceId id);
  [[nodiscard]] Result<void> take_folders();
  using Engines = std::map<std::int32_t, Engine>;  ///< by instance id
  void stop(Engine& engine);
  void stop_all(Engines& engines);
  void end_when_empty(Engines& engines);
  void leave_all();
  [[nodiscard]] Observation observed();
  [[nodiscard]] Result<Plan> read_given(const std::string& json) const;
  void adopt_left(Mode mode);
  [[nodiscard]] std::optional<control::PlanExecutor::Member> adopt(std::int32_t id, Engines& without_slot);
  [[nodiscard]] std::string outdated(Engine& engine);
  void replace_outdated();
  void note(std::int32_t id, Engine& engine);
  [[nodiscard]] bool answers(Engine& engine);
  void look_at(const control::PlanExecutor::Member& member, InstanceId id);
  [[nodiscard]] std::vector<InstanceId> all_engines() const;
  [[nodiscard]] std::optional<std::size_t> pair_of(const std::vector<control::PlanExecutor::Member>& found,
                                                   const control::PlanExecutor::Member& prefill);
  [[nodiscard]] control::PlanExecutor::Member paired(std::vector<control::PlanExecutor::Member>& found,
                                                     std::size_t at_position);
  void announce(Engine& engine);
  void tell_gateway(InstanceId id);
  void withdraw(Engine& engine);
  void tell_journal();
  GatewayAdmin::Seen look(Engine& engine);
  void look_for_cut_offs();
  void forget_past();
  void count_arrivals();
  void tell();

  const config::LoadedScenario& loaded_;
  std::vector<EngineSlot> slots_;
  GatewayAdmin gateway_;
  launch::AdminCaller engine_;  ///< to ask engines whether they have loaded
  Options options_;
  std::optional<FileLock> lock_;  ///< of Options::state
  std::vector<PairShape> pairs_;  ///< the shapes after those of [[fleet]] entries
  std::vector<PoolId> home_;      ///< by shape: its pool if no plan states one
  ManagerLinks managers_;
  std::shared_ptr<GivenPlan> given_ = std::make_shared<GivenPlan>();
  CutOffs cut_offs_;
  Instant next_look_;  ///< next check for cut-off nodes and for arrivals
  Instant begin_;
  std::int32_t next_ = 0;  ///< instance id
  Engines engines_;        ///< ended ones until the journal has their end
  std::unique_ptr<control::PlanExecutor> scaler_;
  std::optional<std::vector<std::int64_t>> arrived_;  ///< by class, as last reported by the gateway
  TurnedOut turned_out_;                              ///< likewise
  TurnedOut finished_;                                ///< since managers were last asked
  Instant asked_;                                     ///< when the gateway was last asked for arrivals
  struct AtGateway {
    std::vector<PoolWeight> weights;
    std::vector<ClockRange> clocks;
    bool any = false;  ///< a plan has stated something that the gateway must get
    Instant next_put;  ///< when it is sent again
  } at_gateway_;
  nlohmann::ordered_json phases_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json steps_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json plan_;
  nlohmann::ordered_json levels_ =
      nlohmann::ordered_json::object();  ///< the newest plan that states more than counts, as journalled
  /// A decision; for a plan (kind Plan) with the whole plan.
  struct Unsent {
    journal::DecisionRecord record;
    nlohmann::ordered_json plan;
  };
  void unsent(Unsent one);
  struct Batch {
    nlohmann::ordered_json records = nlohmann::ordered_json::array();
    std::size_t taken = 0;  ///< number of entries of unsent_; some are no records
  };
  [[nodiscard]] Batch next_records(std::size_t most, Instant sent);
  std::deque<Unsent> unsent_;  ///< records that the gateway's journal does not have yet, oldest first
  std::int64_t refused_ = 0;   ///< records that the gateway refused for its journal
  mutable std::mutex mutex_;   ///< shown_
  std::string shown_ = "{}";
};

}  // namespace wattle::planner
