#include "node/agent.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "control/refit_thread.h"
#include "journal/tee.h"
#include "net/clock.h"
#include "node/actuator.h"
#include "node/agent_metrics.h"
#include "node/gpu_shares.h"
#include "node/host_meter.h"
#include "node/lease_table.h"
#include "node/meter.h"
#include "node/meter_pace.h"
#include "telemetry/fpm_socket.h"

namespace wattle::node {

namespace {

constexpr Span kPeriod = Span::s(1);          ///< of everything that is not driven by reports
constexpr Span kLongestWait = Span::ms(125);  ///< until a stop is noticed
/// NVML's reasons for a clock below the lock that are not somebody's command: idle, power cap, slowdown, sync boost,
/// thermal, power brake.
constexpr std::uint64_t kLimited = 0x1 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80;

/// Times the way from a report's arrival to the command it causes; models are fitted on a thread of their own.
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
  std::unique_ptr<control::RefitThread> refits;  ///< null: nothing has been learnt yet
  Newest<Agent::Measured> measured;
  GpuShares shares;  ///< GPUs by their number, which is their instance at the actuator

 private:
  void pass_on(const std::vector<GpuShares::Command>& commands, Instant now) {
    for (const auto& c : commands) next_.command(InstanceId(static_cast<std::int32_t>(c.gpu)), c.clock, now);
  }
  Actuator& next_;
};

}  // namespace

struct Agent::Impl {
  Impl(const AgentOptions& o, std::shared_ptr<const Nvml> n)
      : options(o), nvml(std::move(n)), host(o.rapl), pace(o.meter_period) {}

  AgentOptions options;
  std::shared_ptr<const Nvml> nvml;
  bool emulated = nvml->emulated();
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
    std::optional<ClockRange> bounds = {};
    Instant placed_until = Instant::never();  ///< never: the gateway does not place it
    std::vector<std::size_t> gpus = {};       ///< by number
    Picojoules energy = {};                   ///< under meter_mutex
  };
  std::vector<Engine> engines;
  std::unique_ptr<control::InstanceLoop> core;
  std::unique_ptr<telemetry::FpmSubscriber> subscriber;

  mutable std::mutex mutex;  ///< core, leases, port, subscriber's counts: the deciding thread against metrics()
  std::atomic<std::int64_t> last_cycle_ns{0};

  std::int64_t other_gpus = 0;  ///< that are not what policies reckon with

  void check_kind(const Gpu& gpu) {
    const MegaHertz highest = gpu.clocks().empty() ? MegaHertz(0) : gpu.clocks().back();
    if (options.believed_highest == MegaHertz(0) || highest == MegaHertz(0) || highest == options.believed_highest)
      return;
    ++other_gpus;
    spdlog::error("GPU {} ({}) can be locked up to {} MHz; the kind it is said to be (--gpu) goes to {} MHz",
                  gpu.index(), gpu.name(), highest.value(), options.believed_highest.value());
  }

  bool warned = false;
  bool warned_of_silence = false;

  void unbound(Engine& engine, Instant now) {
    if (!std::exchange(engine.bounds, std::nullopt)) return;
    if (const auto i = core->find(engine.instance)) core->bound(*i, std::nullopt, now);
  }
  void bound(Engine& engine, const std::optional<ClockRange>& bounds, Instant now) {
    if (!bounds) return unbound(engine, now);
    const auto same = [](const ClockRange& a, const ClockRange& b) { return a.least == b.least && a.most == b.most; };
    if (engine.bounds && same(*bounds, *engine.bounds)) return;
    engine.bounds = bounds;
    if (const auto i = core->find(engine.instance)) core->bound(*i, bounds, now);
  }
  /// It serves in this pool from now on.
  void move_to(Engine& engine, PoolId pool, Instant now) {
    if (engine.pool == pool) return;
    engine.pool = pool;
    if (!engine.in_pool) return;
    auto made = engine.in_pool(pool);
    const auto i = core->find(engine.instance);
    if (!made) spdlog::error("{} in pool {}: {}", engine.endpoint, pool.value(), made.error().message());
    if (made && i) core->become(*i, std::move(made->spec), std::move(made->policy), now);
  }
  void place(Engine& engine, Instant until, Instant now) {
    const bool placed = until != Instant::never();
    engine.placed_until = until;
    port->place(engine.instance, placed, now);
    const std::lock_guard guard(meter_mutex);
    for (const std::size_t gpu : engine.gpus) metered[gpu].holder = port->shares.holder(gpu);
  }
  /// Of those whose lease is over: the gateway is gone, which is to cost energy, not latency.
  void end_places(Instant now) {
    for (Engine& engine : engines) {
      if (now < engine.placed_until) continue;
      unbound(engine, now);
      place(engine, Instant::never(), now);
    }
  }

  void learn(Instant now) {
    if (!port->refits) return;
    for (auto& done : port->refits->take()) {
      port->refits->discard(core->refitted(*done.learner, std::move(done.model), now));
    }
  }
  /// The first time an engine turns out to say nothing.
  void warn_of_silence_once() {
    for (std::size_t i = 0; !warned_of_silence && i < core->size(); ++i) {
      if (core->counts(i).silent == 0) continue;
      warned_of_silence = true;
      spdlog::warn(
          "instance {}: no step report has ever come; its GPUs get the clock of lost telemetry, the highest for "
          "eco-freq, "
          "until one does (counted in wattle_agent_telemetry_silent_total, not logged again)",
          core->view(i).id.value());
    }
  }
  /// The first time a predictor is not believed; after that it is only counted.
  void warn_once() {
    if (warned) return;
    for (std::size_t i = 0; i < core->size(); ++i) {
      if (core->disbelieved(i) == 0) continue;
      warned = true;
      spdlog::warn(
          "instance {}: the latency predictor is missing or answers nonsense; its GPUs run at the highest clock "
          "(counted in wattle_agent_predictor_disbelieved_total, not logged again)",
          core->view(i).id.value());
      return;
    }
  }

  struct Metered {
    Gpu gpu;
    InstanceId holder;  ///< whose energy it is
    EnergyMeter meter;
    MegaHertz clock;
    std::int64_t failures = 0;
  };
  [[nodiscard]] Engine& engine_of(InstanceId id) { return *std::ranges::find(engines, id, &Engine::instance); }
  std::vector<Metered> metered;
  HostMeter host;               ///< under meter_mutex
  Instant host_at = Instant();  ///< of its newest sample; the meter thread's
  mutable std::mutex meter_mutex;
  std::condition_variable meter_wake;  ///< with meter_mutex
  bool meter_stop = false;
  MeterPace pace;
  std::atomic<bool> meter_idle{false};
  std::atomic<std::int64_t> last_meter_ns{0};
  std::thread meter_thread;

  /// Clocks as just read against the locks: the driver keeps no record of who set one last.
  void reconcile() {
    if (!actuator) return;
    const Instant now = net::steady_now();
    for (std::size_t i = 0; i < metered.size(); ++i) {
      const Gpu& gpu = metered[i].gpu;
      const auto limited = [&gpu] {
        const auto reasons = gpu.clock_event_reasons();
        return !reasons.ok() || (reasons.value & kLimited) != 0;
      };
      if (metered[i].clock.value() > 0) actuator->saw(i, metered[i].clock, limited, now);
    }
  }
  void meter_host(Instant now) {
    if (now - host_at < kPeriod) return;
    host_at = now;
    const std::lock_guard guard(meter_mutex);
    host.sample(now);
  }
  /// Readings may block in the driver like any call, so they have a thread of their own.
  void meter() {
    for (;;) {
      for (auto& m : metered) {
        const auto counter = m.gpu.energy_counter_mj();
        const auto power = m.gpu.power();
        const auto clock = m.gpu.sm_clock();
        const Instant now = net::steady_now();
        const std::lock_guard guard(meter_mutex);
        if (!power.ok() || (!counter.ok() && counter.status() != GpuStatus::Absent)) {
          ++m.failures;
          continue;
        }
        pace.read(m.meter.power(), power.value, now);
        const Picojoules before = m.meter.total();
        m.meter.sample(counter.ok() ? std::optional(counter.value) : std::nullopt, power.value, now);
        engine_of(m.holder).energy += m.meter.total() - before;
        if (clock.ok()) m.clock = clock.value;
      }
      meter_host(net::steady_now());
      reconcile();
      last_meter_ns = net::steady_now().ns();
      std::unique_lock lock(meter_mutex);
      const Instant now = net::steady_now();
      meter_idle = pace.idle(now);
      const auto pause = std::chrono::nanoseconds(pace.pause(now).ns());
      meter_wake.wait_for(lock, pause, [this] { return meter_stop || (meter_idle && !pace.idle(net::steady_now())); });
      if (meter_stop) return;
    }
  }
  /// An engine works: the meters are read often from now on. Costs nothing while they are.
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
  std::int64_t last_work_ns = 0;  ///< the deciding thread's
};

Agent::Agent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Agent::~Agent() {
  {
    const std::lock_guard guard(impl_->meter_mutex);
    impl_->meter_stop = true;
  }
  impl_->meter_wake.notify_one();
  if (impl_->meter_thread.joinable()) impl_->meter_thread.join();
}

Result<std::unique_ptr<Agent>> Agent::start(const AgentOptions& options, std::vector<AgentEngine> engines,
                                            journal::Sink& sink) {
  auto nvml = Nvml::open(options.keeper.library);
  if (!nvml) return std::unexpected(nvml.error());
  auto impl = std::make_unique<Impl>(options, *nvml);
  std::vector<Actuator::Target> targets;  // by GPU
  std::vector<telemetry::FpmSubscriber::Source> sources;
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> gpus_of;
  for (const auto& engine : engines) {
    auto& gpus = gpus_of.emplace_back();
    for (const auto& name : engine.gpus) {
      auto gpu = (*nvml)->find(name);
      if (!gpu) return std::unexpected(gpu.error());
      const auto [number, fresh] = numbers.try_emplace(gpu->uuid(), numbers.size());
      if (std::ranges::find(gpus, number->second) != gpus.end()) {
        return bad_input("--engine " + engine.endpoint, "names GPU " + name + " twice");
      }
      gpus.push_back(number->second);
      if (!fresh) continue;
      impl->check_kind(*gpu);
      impl->metered.push_back({*gpu, engine.instance.view.id, EnergyMeter(gpu->power_reading()), {}, 0});
      targets.push_back({InstanceId(static_cast<std::int32_t>(number->second)), {std::move(*gpu)}});
    }
    if (gpus.empty()) return bad_input("--engine " + engine.endpoint, "needs at least one GPU");
    sources.push_back({engine.endpoint, engine.instance.view.id});
  }
  auto subscriber = telemetry::FpmSubscriber::connect(sources);
  if (!subscriber) return std::unexpected(subscriber.error());
  KeeperOptions keeping = options.keeper;
  for (const auto& m : impl->metered) keeping.gpus.push_back(m.gpu.uuid());
  auto keeper = LockKeeper::start(keeping, *nvml);
  if (!keeper) return std::unexpected(keeper.error());

  impl->keeper = std::move(*keeper);
  impl->subscriber = std::make_unique<telemetry::FpmSubscriber>(std::move(*subscriber));
  impl->actuator = std::make_unique<Actuator>(std::move(targets), impl->keeper, options.power_caps);
  impl->port = std::make_unique<AgentPort>(*impl->actuator);
  impl->sink.add(&sink);
  impl->core = std::make_unique<control::InstanceLoop>(options.core, *impl->port, impl->sink);
  impl->leases = std::make_unique<LeaseTable>(*impl->port);
  for (std::size_t e = 0; e < engines.size(); ++e) impl->port->shares.add(engines[e].instance.view.id, gpus_of[e]);
  for (std::size_t e = 0; e < engines.size(); ++e) {
    auto& engine = engines[e];
    const InstanceId id = engine.instance.view.id;
    impl->engines.push_back({.instance = id,
                             .endpoint = engine.endpoint,
                             .leased = engine.leased.has_value(),
                             .in_pool = std::move(engine.in_pool),
                             .gpus = std::move(gpus_of[e])});
    if (engine.leased) impl->leases->add(id, *engine.leased, net::steady_now());
    impl->core->add(std::move(engine.instance));
  }
  impl->last_cycle_ns = impl->last_meter_ns = net::steady_now().ns();
  impl->meter_thread = std::thread([raw = impl.get()] { raw->meter(); });
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

void Agent::run(const std::atomic<bool>& stop) {
  Impl& s = *impl_;
  Instant next_check = net::steady_now();
  while (!stop) {
    const Instant now = net::steady_now();
    const Instant wake = std::min({s.core->next_tick(), next_check, now + kLongestWait});
    s.subscriber->poll(std::max(Span(), wake - now), net::steady_now, [&](const StepReport& report, Instant at) {
      const std::lock_guard guard(s.mutex);
      s.actuator->begins();
      s.core->report(report, at);
      if (report.shape.decode_requests > 0 || report.shape.prefill_tokens > 0) s.works(at);
    });
    {
      const std::lock_guard guard(s.mutex);
      s.actuator->begins();
      s.core->tick(net::steady_now());
      s.leases->tick(net::steady_now());
      s.end_places(net::steady_now());
      s.learn(net::steady_now());
      s.warn_once();
      s.warn_of_silence_once();
    }
    if (net::steady_now() >= next_check) {
      s.keeper->check();
      next_check = net::steady_now() + kPeriod;
    }
    s.last_cycle_ns = net::steady_now().ns();
  }
}

const std::map<std::string, std::string>& Agent::facts() const { return impl_->options.facts; }

std::vector<std::string> Agent::release() { return impl_->actuator->release_all(impl_->options.release_timeout); }

bool Agent::ready() const {
  const Instant now = net::steady_now();
  const Span stale = kPeriod * 3;
  return now - Instant(impl_->last_cycle_ns) < stale && now - Instant(impl_->last_meter_ns) < stale &&
         impl_->actuator->responsive(stale);
}

pid_t Agent::guardian_pid() const { return impl_->keeper->guardian_pid(); }

std::vector<Agent::EngineStatus> Agent::engines() const {
  const Impl& s = *impl_;
  std::vector<EngineStatus> all;
  {
    const std::lock_guard guard(s.mutex);
    for (std::size_t i = 0; i < s.engines.size(); ++i) {
      const auto& e = s.engines[i];
      const MegaHertz commanded = e.leased ? s.leases->commanded(e.instance) : s.core->view(i).clock_commanded;
      all.push_back({e.instance, e.endpoint, {}, {}, {}, {}, commanded, e.leased, s.emulated, e.pool, e.bounds});
    }
  }
  const std::lock_guard guard(s.meter_mutex);
  for (std::size_t i = 0; i < s.engines.size(); ++i) {
    EngineStatus& status = all[i];
    status.energy = s.engines[i].energy;
    for (const std::size_t gpu : s.engines[i].gpus) {
      const auto& m = s.metered[gpu];
      status.clock = status.gpus.empty() ? m.clock : std::min(status.clock, m.clock);
      status.gpus.push_back(m.gpu.uuid());
      if (m.holder == status.instance) status.power = Milliwatts(status.power.value() + m.meter.power().value());
    }
  }
  return all;
}

DecisionRing::Batch Agent::decisions(std::int64_t from) const { return impl_->decisions.since(from); }

Newest<Agent::Measured>::Batch Agent::measured(std::int64_t from) const { return impl_->port->measured.since(from); }

std::optional<Agent::LeaseRefusal> Agent::lease(const std::vector<LeasedClock>& clocks, Span lease) {
  Impl& s = *impl_;
  std::vector<InstanceId> ids;
  for (const auto& wanted : clocks) {
    const auto engine = std::ranges::find(s.engines, wanted.engine, &Impl::Engine::endpoint);
    if (engine == s.engines.end()) return LeaseRefusal{wanted.engine, false};
    if (!engine->leased) return LeaseRefusal{wanted.engine, true};
    ids.push_back(engine->instance);
  }
  const std::lock_guard guard(s.mutex);
  const Instant now = net::steady_now();
  s.actuator->begins();
  for (std::size_t i = 0; i < ids.size(); ++i) (void)s.leases->grant(ids[i], clocks[i].clock, lease, now);
  return std::nullopt;
}

std::optional<Agent::LeaseRefusal> Agent::place(const std::vector<Placed>& placed, Span lease) {
  Impl& s = *impl_;
  std::vector<Impl::Engine*> ours;
  for (const Placed& wanted : placed) {
    const auto engine = std::ranges::find(s.engines, wanted.engine, &Impl::Engine::endpoint);
    if (engine == s.engines.end()) return LeaseRefusal{wanted.engine, false};
    if (engine->leased) return LeaseRefusal{wanted.engine, true};
    ours.push_back(&*engine);
  }
  const std::lock_guard guard(s.mutex);
  const Instant now = net::steady_now();
  s.actuator->begins();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    s.move_to(*ours[i], placed[i].pool, now);
    s.bound(*ours[i], placed[i].bounds, now);
    s.place(*ours[i], now + lease, now);
  }
  return std::nullopt;
}

void Agent::work(const std::vector<Work>& work) {
  Impl& s = *impl_;
  const std::lock_guard guard(s.mutex);
  const Instant now = net::steady_now();
  s.actuator->begins();
  for (const Work& item : work) {
    const auto engine = std::ranges::find(s.engines, item.engine, &Impl::Engine::endpoint);
    if (engine == s.engines.end()) continue;
    if (const auto i = s.core->find(engine->instance)) s.core->work(*i, item.now, now);
    if (item.now.requests == 0) continue;
    const std::lock_guard meters(s.meter_mutex);
    s.pace.worked(now);
    if (s.meter_idle) s.meter_wake.notify_one();
  }
}

std::string Agent::metrics() const {
  const Impl& s = *impl_;
  AgentMetrics m;
  {
    const std::lock_guard guard(s.mutex);
    for (std::size_t i = 0; i < s.core->size(); ++i) {
      m.instances.push_back({s.core->view(i), s.core->counts(i), s.core->overruns(i), s.core->disbelieved(i)});
    }
    for (std::size_t i = 0; i < s.engines.size(); ++i) {
      if (s.engines[i].leased) m.instances[i].view.clock_commanded = s.leases->commanded(s.engines[i].instance);
    }
    m.leases = s.leases->counts();
    for (const auto* learner : s.core->learners()) {
      m.predictors.push_back({learner->counts(), {learner->newest(true), learner->newest(false)}});
    }
    m.unknown_instance = s.core->unknown_instance();
    m.drops = s.subscriber->drops();
    m.report_to_command_ns = s.port->report_to_command_ns;
  }
  {
    const std::lock_guard guard(s.meter_mutex);
    m.host = s.host.domains();
    for (const auto& gpu : s.metered) {
      m.gpus.push_back({gpu.gpu.uuid(), gpu.holder, gpu.meter.total().joules(), gpu.meter.power(), gpu.clock,
                        gpu.failures, gpu.meter.resets()});
    }
  }
  m.actuators = s.actuator->stats();
  for (std::size_t gpu = 0; gpu < m.actuators.size(); ++gpu) m.actuators[gpu].instance = m.gpus[gpu].instance;
  m.keeper = s.keeper->counts();
  m.other_gpus = s.other_gpus;
  m.ready = ready();
  m.advisory = s.options.keeper.advisory;
  return m.text();
}

}  // namespace wattle::node
