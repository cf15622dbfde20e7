#pragma once
// The parts of an agent, for the files that implement it.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "control/refit_thread.h"
#include "journal/tee.h"
#include "net/clock.h"
#include "net/log.h"
#include "node/actuator.h"
#include "node/agent.h"
#include "node/ceilings.h"
#include "node/gpu_shares.h"
#include "node/host_meter.h"
#include "node/lease_table.h"
#include "node/meter.h"
#include "node/meter_pace.h"
#include "node/node_budget.h"
#include "node/one_gateway.h"
#include "node/priority_mutex.h"
#include "node/realtime.h"
#include "telemetry/fpm_socket.h"

namespace wattle::node {

/// Measures the time from a report's arrival to its command; models are fitted on a separate thread.
class AgentPort final : public control::InstancePort {
 public:
  explicit AgentPort(Actuator& next) : next_(next) {}
  void command(InstanceId instance, MegaHertz clock, Instant now) override {
    pass_on(shares.command(instance, clock), now);
    report_to_command_ns.add((net::steady_now() - now).ns());
  }
  void place(InstanceId instance, bool placed, Instant now) { pass_on(shares.place(instance, placed), now); }
  void refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant) override {
    if (!refits) refits = std::make_unique<control::RefitThread>();
    refits->post(learner, std::move(samples));
  }
  void learns(InstanceId instance, const predict::StepSample& sample) override { measured.add({instance, sample}); }
  Histogram report_to_command_ns;
  std::unique_ptr<control::RefitThread> refits;  ///< null: nothing has been learned yet
  Newest<Agent::Measured> measured;
  GpuShares shares;  ///< GPUs by number, which is their instance at the actuator
  Ceilings ceilings;

  /// Limits its clock from now on; 0: no limit.
  void limit(std::size_t gpu, MegaHertz ceiling, MegaHertz highest, Instant now) {
    if (const auto clock = ceilings.set(gpu, ceiling, highest)) send(gpu, *clock, now);
  }

 private:
  void pass_on(const std::vector<GpuShares::Command>& commands, Instant now) {
    for (const auto& c : commands) send(c.gpu, ceilings.want(c.gpu, c.clock), now);
  }
  void send(std::size_t gpu, MegaHertz clock, Instant now) {
    next_.command(InstanceId(static_cast<std::int32_t>(gpu)), clock, now);
  }
  Actuator& next_;
};

struct Agent::Impl {
  static constexpr Span kPeriod = Span::s(1);          ///< of everything that reports do not drive
  static constexpr Span kLongestWait = Span::ms(125);  ///< until a stop is noticed
  static constexpr MegaHertz kAboveAll{1'000'000};     ///< a bound that leaves the highest clock

  Impl(const AgentOptions& o, std::shared_ptr<const GpuLibrary> l)
      : options(o), library(std::move(l)), host(o.rapl), pace(o.meter_period) {}

  AgentOptions options;
  const std::int64_t started_unix_us = net::unix_now_ns() / 1'000;
  std::shared_ptr<const GpuLibrary> library;
  bool emulated = library->emulated();
  std::shared_ptr<LockKeeper> keeper;
  std::unique_ptr<Actuator> actuator;
  std::unique_ptr<AgentPort> port;
  std::unique_ptr<LeaseTable> leases;
  DecisionRing decisions;
  journal::Tee sink{{&decisions}};
  struct Engine {
    InstanceId instance;
    std::string endpoint;
    bool leased = false;
    std::function<Result<AgentEngine::InPool>(PoolId)> in_pool = {};
    std::optional<PoolId> pool = {};
    std::optional<ClockRange> bounds = {};    ///< of a plan
    std::optional<Slo> objectives = {};       ///< of its pool at present; none: its spec's
    MegaHertz ceiling = MegaHertz(0);         ///< from the watt budget; 0: none
    Instant placed_until = Instant::never();  ///< never: the gateway does not place it
    std::vector<std::size_t> gpus = {};       ///< by number
    Picojoules energy = {};                   ///< under meter_mutex
    OneGateway gateway = {};                  ///< that commands it
    bool contested = false;                   ///< two do
  };
  std::vector<Engine> engines;
  std::unique_ptr<control::InstanceLoop> core;
  std::unique_ptr<telemetry::FpmSubscriber> subscriber;

  mutable PriorityMutex
      mutex;  ///< guards core, leases, port and the subscriber's counts: the deciding thread against metrics()
  std::atomic<std::int64_t> last_cycle_ns{0};

  std::int64_t other_gpus = 0;  ///< number of GPUs that policies do not expect

  void check_kind(const Gpu& gpu) {
    const MegaHertz highest = gpu.clocks().empty() ? MegaHertz(0) : gpu.clocks().back();
    if (options.believed_highest == MegaHertz(0) || highest == MegaHertz(0) || highest == options.believed_highest)
      return;
    ++other_gpus;
    net::log_line(net::LogLevel::Error, "the GPU is another kind than --gpu says",
                  {{"gpu", gpu.uuid()},
                   {"name", gpu.name()},
                   {"highest_mhz", highest.value()},
                   {"expected_mhz", options.believed_highest.value()}});
  }

  bool warned = false;
  bool warned_of_silence = false;

  /// Bounds of a plan; none: unbounded.
  void bound(Engine& engine, const std::optional<ClockRange>& bounds, Instant now) {
    if (engine.bounds == bounds) return;
    engine.bounds = bounds;
    if (const auto i = core->find(engine.instance)) core->bound(*i, allowed(engine), now);
  }
  /// The engine that publishes at this address; null: none.
  [[nodiscard]] Engine* engine_at(const std::string& endpoint) {
    const auto found = std::ranges::find(engines, endpoint, &Engine::endpoint);
    return found == engines.end() ? nullptr : &*found;
  }
  /// None: the objectives of its spec.
  void hold_to(Engine& engine, const std::optional<Slo>& objectives, Instant now) {
    if (engine.objectives == objectives) return;
    engine.objectives = objectives;
    const auto i = core->find(engine.instance);
    if (i) core->held_to(*i, objectives ? *objectives : core->view(*i).spec->slo, now);
  }
  /// Two gateways command the engine, or no longer: meanwhile each knows a part of its load, so its clock is the
  /// highest, which costs energy, not latency.
  void contest(Engine& engine, bool contested, Instant now) {
    if (std::exchange(engine.contested, contested) == contested) return;
    if (engine.leased) {
      if (contested) leases->revoke(engine.instance, now);
    } else if (const auto i = core->find(engine.instance)) {
      core->bound(*i, allowed(engine), now);
    }
  }
  /// The first that is refused because another gateway commands it, too. Under mutex.
  [[nodiscard]] std::optional<LeaseRefusal> commanded_by(const Sender& sender, const std::set<std::string>& names,
                                                         Instant now);
  void end_contests(Instant now) {
    for (Engine& engine : engines) {
      if (!engine.gateway.contested(now)) contest(engine, false, now);
    }
  }
  /// The range of its clock by its gateways, its plan and the watt budget.
  [[nodiscard]] static std::optional<ClockRange> allowed(const Engine& engine) {
    auto bounds = engine.contested ? std::optional(ClockRange{PoolId(0), kAboveAll, kAboveAll}) : engine.bounds;
    if (engine.ceiling == MegaHertz(0)) return bounds;
    ClockRange range = bounds.value_or(ClockRange{PoolId(0), MegaHertz(0), engine.ceiling});
    range.most = std::min(range.most, engine.ceiling);
    range.least = std::min(range.least, range.most);
    return range;
  }

  NodeBudget budget;  ///< under mutex, like everything that decides
  /// Once a period if there is a budget: measures power and sets the ceilings.
  void keep_budget(Instant now);
  void apply_ceilings(Instant now);
  void set_budget(std::optional<Milliwatts> watts, Instant now);
  /// By GPU: whether all of its engines are known to be idle. Under mutex.
  [[nodiscard]] std::vector<bool> without_work() const;
  /// Errors: less than the draw of idle GPUs, by their engines or by the device itself.
  [[nodiscard]] Result<void> check_budget(Milliwatts watts, const std::vector<bool>& without_work,
                                          const std::string& where) const;

  /// The engine serves in this pool from now on.
  void move_to(Engine& engine, PoolId pool, Instant now) {
    if (engine.pool == pool) return;
    engine.pool = pool;
    if (!engine.in_pool) return;
    auto made = engine.in_pool(pool);
    const auto i = core->find(engine.instance);
    if (!made) {
      net::log_line(net::LogLevel::Error, "no policy for an engine in its pool",
                    {{"engine", engine.endpoint}, {"pool", pool.value()}, {"error", made.error().message()}});
    }
    if (made && i) core->become(*i, std::move(made->spec), std::move(made->policy), now);
  }
  void place(Engine& engine, Instant until, Instant now) {
    const bool placed = until != Instant::never();
    engine.placed_until = until;
    port->place(engine.instance, placed, now);
    const std::lock_guard guard(meter_mutex);
    for (const std::size_t gpu : engine.gpus) metered[gpu].holder = port->shares.holder(gpu);
  }
  /// Ends expired placements: the gateway is gone, which must cost energy, not latency.
  void end_places(Instant now) {
    for (Engine& engine : engines) {
      if (now < engine.placed_until) continue;
      bound(engine, std::nullopt, now);
      hold_to(engine, std::nullopt, now);
      place(engine, Instant::never(), now);
    }
  }

  void learn(Instant now) {
    if (!port->refits) return;
    for (auto& done : port->refits->take()) {
      port->refits->discard(core->refitted(*done.learner, std::move(done.model), now));
    }
  }
  /// Warns the first time that an engine turns out to be silent.
  void warn_of_silence_once() {
    for (std::size_t i = 0; !warned_of_silence && i < core->size(); ++i) {
      if (core->counts(i).silent == 0) continue;
      warned_of_silence = true;
      net::log_line(
          net::LogLevel::Warning,
          "no step report has ever come; the GPUs get the recipe's clock of lost telemetry until one does, or "
          "a gateway says what the engine does "
          "(counted in wattle_agent_telemetry_silent_total, not logged again)",
          {{"instance", core->view(i).id.value()}});
    }
  }
  /// Warns the first time that a prediction is not plausible; afterwards it is only counted.
  void warn_once() {
    if (warned) return;
    for (std::size_t i = 0; i < core->size(); ++i) {
      if (core->disbelieved(i) == 0) continue;
      warned = true;
      net::log_line(net::LogLevel::Warning,
                    "the latency predictor is missing or answers nonsense; the GPUs run at the highest clock "
                    "(counted in wattle_agent_predictor_disbelieved_total, not logged again)",
                    {{"instance", core->view(i).id.value()}});
      return;
    }
  }

  struct Metered {
    Gpu gpu;
    InstanceId holder;  ///< the engine to which its energy is booked
    EnergyMeter meter;
    MegaHertz clock;
    bool clock_read = false;  ///< it is the newest reading's
    std::int64_t failures = 0;
    Instant read_at = {};   ///< newest sample
    bool unread = true;     ///< its newest reading failed, or there is none: its power is unknown
    bool reported = false;  ///< a longer reading failure has been reported
    MeanPower mean = {};    ///< between the budget's decisions
  };
  [[nodiscard]] Engine& engine_of(InstanceId id) { return *std::ranges::find(engines, id, &Engine::instance); }
  std::vector<Metered> metered;
  HostMeter host;               ///< under meter_mutex
  Instant host_at = Instant();  ///< of its newest sample; the meter thread's
  mutable PriorityMutex meter_mutex;
  PriorityCondition meter_wake;  ///< with meter_mutex
  bool meter_stop = false;
  MeterPace pace;
  std::atomic<bool> meter_idle{false};
  std::atomic<std::int64_t> last_meter_ns{0};
  std::thread meter_thread;

  /// Compares the clocks just read with the locks: the driver does not record who set one last.
  void reconcile() {
    if (!actuator) return;
    const Instant now = net::steady_now();
    for (std::size_t i = 0; i < metered.size(); ++i) {
      const Gpu& gpu = metered[i].gpu;
      const auto limited = [&gpu] {
        const auto answer = gpu.limited();
        return !answer.ok() || answer.value;
      };
      if (metered[i].clock_read) actuator->saw(i, metered[i].clock, limited, now);
    }
  }
  /// Once, if it has lasted longer than a brief failure of the driver.
  static void warn_of_unread(Metered& m, GpuStatus why, Instant now) {
    if (m.reported || m.read_at == Instant() || now - m.read_at < kPeriod) return;
    m.reported = true;
    net::log_line(net::LogLevel::Error, "the GPU's meters cannot be read; what it draws is unknown until they can",
                  {{"gpu", m.gpu.uuid()}, {"why", name_of(why)}});
  }
  void meter_host(Instant now) {
    if (now - host_at < kPeriod) return;
    host_at = now;
    const std::lock_guard guard(meter_mutex);
    host.sample(now);
  }
  /// Readings may block in the driver like any call, so they have their own thread.
  void meter() {
    for (;;) {
      for (auto& m : metered) {
        const auto counter = m.gpu.energy_counter_mj();
        const auto power = m.gpu.power();
        const auto clock = m.gpu.sm_clock();
        const Instant now = net::steady_now();
        const std::lock_guard guard(meter_mutex);
        m.clock_read = clock.ok() && clock.value.value() > 0;
        m.unread = !power.ok() || (!counter.ok() && counter.status() != GpuStatus::Absent);
        if (clock.ok()) m.clock = clock.value;
        if (m.unread) {
          ++m.failures;
          warn_of_unread(m, power.ok() ? counter.status() : power.status(), now);
          continue;
        }
        m.reported = false;
        pace.read(m.meter.power(), power.value, now);
        const Picojoules before = m.meter.total();
        m.meter.sample(counter.ok() ? std::optional(counter.value) : std::nullopt, power.value, now);
        engine_of(m.holder).energy += m.meter.total() - before;
        m.read_at = now;
      }
      meter_host(net::steady_now());
      reconcile();
      last_meter_ns = net::steady_now().ns();
      std::unique_lock lock(meter_mutex);
      const Instant now = net::steady_now();
      meter_idle = pace.idle(now);
      meter_wake.wait_for(lock, pace.pause(now),
                          [this] { return meter_stop || (meter_idle && !pace.idle(net::steady_now())); });
      if (meter_stop) return;
    }
  }
  /// An engine works: meters are read often from now on. Costs nothing while they are already.
  void works(Instant now) {
    const Instant last{last_work_ns};
    if (!meter_idle && now < last + MeterPace::kStaysBusy / 4) return;
    last_work_ns = now.ns();
    {
      const std::lock_guard guard(meter_mutex);
      pace.worked(now);
    }
    if (meter_idle) meter_wake.notify_one();
  }
  std::int64_t last_work_ns = 0;  ///< used by the deciding thread only
};

}  // namespace wattle::node
