#include "node/agent.h"

#include <chrono>

#include "node/agent_impl.h"
#include "node/gpu/open.h"
#include "node/realtime.h"

namespace wattle::node {

namespace {

policy::WattBudget::Group group_of(const Gpu& gpu) {
  if (gpu.clocks().empty()) return {};
  return {gpu.clocks().front(), gpu.clocks().back(), gpu.enforced_power_limit().value};
}

}  // namespace

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
  auto library = open_gpus(options.keeper.library);
  if (!library) return std::unexpected(library.error());
  auto impl = std::make_unique<Impl>(options, *library);
  std::vector<Actuator::Target> targets;  // by GPU
  std::vector<telemetry::FpmSubscriber::Source> sources;
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> gpus_of;
  std::vector<policy::WattBudget::Group> groups;  // by GPU
  for (const auto& engine : engines) {
    auto& gpus = gpus_of.emplace_back();
    for (const auto& name : engine.gpus) {
      auto gpu = (*library)->find(name);
      if (!gpu) return std::unexpected(gpu.error());
      const auto [number, fresh] = numbers.try_emplace(gpu->uuid(), numbers.size());
      if (std::ranges::find(gpus, number->second) != gpus.end()) {
        return bad_input("--engine " + engine.endpoint, "names GPU " + name + " twice");
      }
      gpus.push_back(number->second);
      if (!fresh && !options.slots) {
        const auto other = std::ranges::find(engines, impl->metered[number->second].holder,
                                             [](const AgentEngine& e) { return e.instance.view.id; });
        return bad_input(
            "--engine " + engine.endpoint,
            "has GPU " + name + " of " + other->endpoint +
                ": energy could not be attributed. With --slots, where a planner runs one of them at a time, "
                "engines may share GPUs");
      }
      if (!fresh) continue;
      impl->metered.push_back({*gpu, engine.instance.view.id, EnergyMeter(gpu->power_reading()), {}, 0, {}, {}});
    }
    if (gpus.empty()) return bad_input("--engine " + engine.endpoint, "needs at least one GPU");
    if (!engine.endpoint.starts_with("http://")) sources.push_back({engine.endpoint, engine.instance.view.id});
  }
  auto subscriber = telemetry::FpmSubscriber::connect(sources);
  if (!subscriber) return std::unexpected(subscriber.error());
  KeeperOptions keeping = options.keeper;
  for (const auto& m : impl->metered) keeping.gpus.push_back(m.gpu.uuid());
  auto keeper = LockKeeper::start(keeping, *library);
  if (!keeper) return std::unexpected(keeper.error());
  // Opened again: while a lock of a dead agent was in force, a device may have reported a limited range of clocks.
  for (std::size_t i = 0; i < impl->metered.size(); ++i) {
    auto gpu = (*library)->by_uuid(impl->metered[i].gpu.uuid());
    if (!gpu) return std::unexpected(gpu.error());
    impl->check_kind(*gpu);
    groups.push_back(group_of(*gpu));
    targets.push_back({InstanceId(static_cast<std::int32_t>(i)), {*gpu}});
    impl->metered[i].gpu = std::move(*gpu);
  }

  impl->keeper = std::move(*keeper);
  impl->subscriber = std::make_unique<telemetry::FpmSubscriber>(std::move(*subscriber));
  impl->actuator = std::make_unique<Actuator>(std::move(targets), impl->keeper, options.power_caps, options.real_time);
  impl->port = std::make_unique<AgentPort>(*impl->actuator);
  impl->budget = NodeBudget(groups, gpus_of);
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
  if (options.watt_budget) {
    if (auto ok = impl->check_budget(*options.watt_budget, impl->without_work(), "--watt-budget-w"); !ok)
      return std::unexpected(ok.error());
    impl->set_budget(options.watt_budget, net::steady_now());
  }
  impl->last_cycle_ns = impl->last_meter_ns = net::steady_now().ns();
  impl->meter_thread = std::thread([raw = impl.get()] { raw->meter(); });
  return std::unique_ptr<Agent>(new Agent(std::move(impl)));
}

void Agent::run(const std::atomic<bool>& stop) {
  Impl& s = *impl_;
  const RealTime granted = s.options.real_time ? run_in_real_time() : RealTime::Granted;
  if (granted != RealTime::Granted) {
    net::log_line(net::LogLevel::Info, "no real-time priority: clock commands may wait for a core",
                  {{"why", text_of(granted)}});
  }
  Instant next_check = net::steady_now();
  while (!stop) {
    const Instant now = net::steady_now();
    const Instant wake = std::min({s.core->next_tick(), next_check, now + Impl::kLongestWait});
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
      s.end_contests(net::steady_now());
      s.keep_budget(net::steady_now());
      s.learn(net::steady_now());
      s.warn_once();
      s.warn_of_silence_once();
    }
    if (net::steady_now() >= next_check) {
      if (net::steady_now() - next_check >= kGuardianSilence / 2) s.actuator->renew();  // we were stopped
      s.keeper->check();
      s.keeper->beat();
      next_check = net::steady_now() + Impl::kPeriod;
    }
    s.last_cycle_ns = net::steady_now().ns();
  }
}

std::vector<std::string> Agent::release() { return impl_->actuator->release_all(impl_->options.release_timeout); }

}  // namespace wattle::node
