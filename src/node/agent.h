#pragma once
// The running node agent: telemetry in, the instance loop, actuator, keeper, meters; one thread decides.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/instance_loop.h"
#include "journal/record.h"
#include "node/decision_ring.h"
#include "node/keeper.h"
#include "policy/frequency/watt_budget.h"

namespace wattle::node {

struct AgentOptions {
  KeeperOptions keeper;
  control::InstanceLoopOptions core;
  Span meter_period = Span::ms(5);  ///< while engines work; less often on an idle machine (MeterPace)
  /// Shorter than a service manager's grace period, so that hanging locks are left to the guardian in time.
  Span release_timeout = Span::s(5);
  /// The policies' beliefs about the fleet, by name; a gateway compares them with its own.
  std::map<std::string, std::string> facts = {};
  std::string rapl = "";    ///< root of the kernel's powercap tree, for the host's power; empty: not read
  bool power_caps = false;  ///< limit power where clocks cannot be locked (power_cap.h)
  bool slots = false;       ///< a planner runs one engine at a time in each place: engines may share GPUs
  bool real_time = false;  ///< the deciding thread and those that call the driver have real-time priority, if permitted
  /// Total power that the GPUs may draw (policy/frequency/watt_budget.h); none: no limit.
  std::optional<Milliwatts> watt_budget = {};
  /// The GPUs' highest clock that policies assume; 0: not stated. GPUs with another one cause a warning and are
  /// counted.
  MegaHertz believed_highest{0};
};

struct AgentEngine {
  std::string endpoint;           ///< address of its forward-pass metrics, or http://... as a name if it has none
  std::vector<std::string> gpus;  ///< indices or UUIDs of its whole tensor-parallel group; naming a GPU opts it in
  control::LoopInstance instance;
  /// Its clock is decided elsewhere and leased (LeaseTable). `instance` then has no policy, and this clock holds while
  /// there is no lease.
  std::optional<MegaHertz> leased;
  /// Makes the spec and policy for its clock when it serves in this pool; null: pools make no difference. Called with
  /// the agent's lock held. Errors are logged and change nothing.
  struct InPool {
    std::shared_ptr<const InstanceSpec> spec;
    std::shared_ptr<policy::FrequencyPolicy> policy;
  };
  std::function<Result<InPool>(PoolId)> in_pool = {};
};

class Agent {
 public:
  /// Opens NVML, finds the GPUs, cleans up after a predecessor, starts the guardian. With AgentOptions::slots engines
  /// may have the same GPUs (GpuShares). Errors: failure of any of these; a GPU named twice by one engine or, without
  /// slots, by two.
  [[nodiscard]] static Result<std::unique_ptr<Agent>> start(const AgentOptions& options,
                                                            std::vector<AgentEngine> engines, journal::Sink& sink);
  ~Agent();

  /// Decides until `stop` is set; a signal handler need only set it.
  void run(const std::atomic<bool>& stop);
  /// Releases all clock locks. Returns the UUIDs of GPUs that were not released in time; the guardian has them.
  std::vector<std::string> release();

  struct EngineStatus {
    InstanceId instance;
    std::string endpoint;
    std::vector<std::string> gpus;  ///< UUIDs
    bool metered = true;            ///< false: some of its GPUs cannot be read, so energy, power and clock are unknown
    Picojoules energy;              ///< of all its GPUs, since the agent started
    Milliwatts power;
    MegaHertz clock;  ///< present clock of its slowest GPU
    MegaHertz commanded;
    bool leased = false;
    bool emulated = false;               ///< its GPUs are virtual: their readings come from an engine's model
    std::optional<PoolId> pool;          ///< none: unknown
    std::optional<ClockRange> bounds;    ///< of a plan, during its lease
    MegaHertz ceiling{0};                ///< from the watt budget; 0: none
    std::optional<Slo> objectives = {};  ///< of its pool at present, during their lease; none: those of its spec
  };
  /// From any thread.
  [[nodiscard]] std::vector<EngineStatus> engines() const;
  [[nodiscard]] DecisionRing::Batch decisions(std::int64_t from) const;
  /// A step that a learning predictor was given.
  struct Measured {
    InstanceId instance;
    predict::StepSample step;
  };
  [[nodiscard]] Newest<Measured>::Batch measured(std::int64_t from) const;

  struct LeasedClock {
    std::string engine;  ///< endpoint
    MegaHertz clock;
  };
  struct LeaseRefusal {
    std::string engine;
    bool known = false;                     ///< the engine is known, but its clock is not leased
    std::optional<std::string> rival = {};  ///< or this gateway commands it, too: neither is obeyed (OneGateway)
  };
  /// Who sends a message, and for how long it holds.
  struct Sender {
    std::string gateway;  ///< empty: without a name
    Span lease;
  };
  /// Grants all or none; returns the first that is refused. `named`: the engines in the rest of the message; unknown
  /// ones belong to another node. From any thread.
  [[nodiscard]] std::optional<LeaseRefusal> lease(const std::vector<LeasedClock>& clocks,
                                                  const std::set<std::string>& named, const Sender& sender);

  /// A plan's statement about an engine.
  struct Placed {
    std::string engine;  ///< endpoint
    PoolId pool;
    std::optional<ClockRange> bounds;    ///< none: any clock
    std::optional<Slo> objectives = {};  ///< that it has to keep at present; none: those of its spec
  };
  /// Applies all or none; returns the first that is refused. Bounds and objectives hold for the lease. From any thread.
  [[nodiscard]] std::optional<LeaseRefusal> place(const std::vector<Placed>& engines, const Sender& sender);
  struct Work {
    std::string engine;  ///< endpoint
    control::InstanceWork now;
  };
  /// What the gateway has sent to engines whose clocks are decided here (InstanceLoop::work). Unknown ones belong to
  /// another node and are ignored. From any thread.
  void work(const std::vector<Work>& work);
  struct HandedOver {
    std::string engine;  ///< endpoint
    Span age;
    Span wait;
  };
  /// Waiting times of requests that moved from one engine to another (InstanceLoop::handed_over). From any thread.
  void handed_over(const std::vector<HandedOver>& all);
  struct Finished {
    std::string engine;  ///< endpoint
    ClassId request_class;
    std::int64_t requests = 0;
    std::int64_t late = 0;  ///< number of these that missed an objective
  };
  /// Requests that have ended (InstanceLoop::finished). From any thread.
  void finished(const std::vector<Finished>& all);

  /// The watt budget and its effects.
  struct Budget {
    std::optional<Milliwatts> watts;
    Milliwatts drawn;  ///< mean of the last period; 0: no budget, or no period yet
    policy::WattBudget::State state;
    double level;                                             ///< 2: no ceiling; 0: all clocks at their lowest
    std::int64_t over;                                        ///< number of periods that exceeded the budget
    std::int64_t blind;                                       ///< number of failed readings
    std::vector<std::pair<std::string, MegaHertz>> ceilings;  ///< by UUID; 0: none
  };
  [[nodiscard]] Budget budget() const;
  /// None: no limit. Errors: less than the GPUs draw when idle. From any thread.
  [[nodiscard]] Result<void> set_budget(std::optional<Milliwatts> watts);

  /// When it was started: another agent, or this one started again, whose meters count from 0, says another number.
  [[nodiscard]] std::int64_t started_unix_us() const;
  /// AgentOptions::facts.
  [[nodiscard]] const std::map<std::string, std::string>& facts() const;
  /// From any thread: Prometheus text, and whether every part has been alive within three periods.
  [[nodiscard]] std::string metrics() const;
  [[nodiscard]] bool ready() const;
  /// UUIDs of GPUs whose newest reading failed: what they draw is unknown. From any thread.
  [[nodiscard]] std::vector<std::string> unread() const;
  [[nodiscard]] pid_t guardian_pid() const;

 private:
  struct Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::node
