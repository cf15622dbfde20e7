#pragma once
// The node agent as a running thing: telemetry in, the instance loop, actuator, keeper, meters; one thread decides.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  Span meter_period = Span::ms(5);  ///< while engines work; an idle machine is left asleep (MeterPace)
  /// Shorter than the grace a service manager gives, so that what hangs is left to the guardian in time.
  Span release_timeout = Span::s(5);
  /// What the policies believe of the fleet, by name; a gateway compares it with its own.
  std::map<std::string, std::string> facts = {};
  std::string rapl = "";    ///< root of the kernel's powercap tree, for the host's power; empty: not read
  bool power_caps = false;  ///< power is limited where clocks cannot be locked (power_cap.h)
  bool slots = false;       ///< engines are places of which a planner fills one at a time: they may share GPUs
  bool real_time = false;   ///< who decides and calls the driver runs before ordinary threads, where permitted
  /// What all GPUs together may draw (policy/frequency/watt_budget.h); none: anything.
  std::optional<Milliwatts> watt_budget = {};
  /// The highest clock of the GPUs that policies reckon with; 0: not said. A GPU with another is warned of and counted.
  MegaHertz believed_highest{0};
};

struct AgentEngine {
  std::string endpoint;           ///< of its forward-pass metrics; http://...: it has none, that is its name
  std::vector<std::string> gpus;  ///< indices or UUIDs: all of its tensor-parallel group, and opted in by being named
  control::LoopInstance instance;
  /// Its clock is decided elsewhere and leased (LeaseTable); then `instance` has no policy, and this clock stands while
  /// nobody holds a lease.
  std::optional<MegaHertz> leased;
  /// What decides its clock when it serves in this pool; null: pools make no difference. Called with the agent's lock
  /// held. Errors are logged, and leave it as it is.
  struct InPool {
    std::shared_ptr<const InstanceSpec> spec;
    std::shared_ptr<policy::FrequencyPolicy> policy;
  };
  std::function<Result<InPool>(PoolId)> in_pool = {};
};

class Agent {
 public:
  /// Opens NVML, finds the GPUs, cleans up after a predecessor, starts the guardian. With AgentOptions::slots engines
  /// may have the same GPUs (GpuShares). Errors: any of that; a GPU that is an engine's twice, or without slots two
  /// engines'.
  [[nodiscard]] static Result<std::unique_ptr<Agent>> start(const AgentOptions& options,
                                                            std::vector<AgentEngine> engines, journal::Sink& sink);
  ~Agent();

  /// Decides until `stop`; a signal handler need do no more than set that.
  void run(const std::atomic<bool>& stop);
  /// Takes all clock locks off. UUIDs of GPUs that would not let go in time: the guardian has them.
  std::vector<std::string> release();

  struct EngineStatus {
    InstanceId instance;
    std::string endpoint;
    std::vector<std::string> gpus;  ///< UUIDs
    bool metered = true;            ///< else some GPU of its cannot be read: energy, power and clock are not known
    Picojoules energy;              ///< of all its GPUs, since the agent started
    Milliwatts power;
    MegaHertz clock;  ///< of its slowest GPU, now
    MegaHertz commanded;
    bool leased = false;
    bool emulated = false;               ///< its GPUs are virtual: what they say is made up by an engine's model
    std::optional<PoolId> pool;          ///< none: nobody has said
    std::optional<ClockRange> bounds;    ///< of a plan, while their lease lasts
    MegaHertz ceiling{0};                ///< of the watt budget; 0: none
    std::optional<Slo> objectives = {};  ///< of its pool at present, while their lease lasts; none: those of its spec
  };
  /// From any thread.
  [[nodiscard]] std::vector<EngineStatus> engines() const;
  [[nodiscard]] DecisionRing::Batch decisions(std::int64_t from) const;
  /// A step that a predictor which learns was given.
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
    bool known = false;  ///< but not leased
  };
  /// All or, with the first that cannot be had, none. From any thread.
  [[nodiscard]] std::optional<LeaseRefusal> lease(const std::vector<LeasedClock>& clocks, Span lease);

  /// What a plan says of an engine.
  struct Placed {
    std::string engine;  ///< endpoint
    PoolId pool;
    std::optional<ClockRange> bounds;    ///< none: any clock
    std::optional<Slo> objectives = {};  ///< that it has to keep at present; none: those of its spec
  };
  /// All or, with the first that cannot be had, none; bounds and objectives for as long as `lease`. From any thread.
  [[nodiscard]] std::optional<LeaseRefusal> place(const std::vector<Placed>& engines, Span lease);
  struct Work {
    std::string engine;  ///< endpoint
    control::InstanceWork now;
  };
  /// What the gateway has sent to engines whose clocks are decided here (InstanceLoop::work); unknown ones are ignored:
  /// another node's. From any thread.
  void work(const std::vector<Work>& work);
  struct HandedOver {
    std::string engine;  ///< endpoint
    Span age;
    Span wait;
  };
  /// What requests waited that moved from one engine to another (InstanceLoop::handed_over). From any thread.
  void handed_over(const std::vector<HandedOver>& all);
  struct Finished {
    std::string engine;  ///< endpoint
    ClassId request_class;
    std::int64_t requests = 0;
    std::int64_t late = 0;  ///< of them, those that missed an objective
  };
  /// Requests that have ended (InstanceLoop::finished). From any thread.
  void finished(const std::vector<Finished>& all);

  /// The watt budget, and what has come of it.
  struct Budget {
    std::optional<Milliwatts> watts;
    Milliwatts drawn;  ///< mean of the last period; 0: no budget, or no period yet
    policy::WattBudget::State state;
    double level;                                             ///< 2: no ceiling; 0: every clock at its lowest
    std::int64_t over;                                        ///< periods that drew more
    std::int64_t blind;                                       ///< readings that failed
    std::vector<std::pair<std::string, MegaHertz>> ceilings;  ///< by UUID; 0: none
  };
  [[nodiscard]] Budget budget() const;
  /// None: any. Errors: less than the GPUs draw, which do nothing. From any thread.
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
