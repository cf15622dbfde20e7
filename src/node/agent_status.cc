// The agent's state over HTTP, and what it takes from a gateway.
#include "net/log.h"
#include "node/agent_impl.h"
#include "node/agent_metrics.h"

namespace wattle::node {

const std::map<std::string, std::string>& Agent::facts() const { return impl_->options.facts; }

std::int64_t Agent::started_unix_us() const { return impl_->started_unix_us; }

bool Agent::ready() const {
  const Instant now = net::steady_now();
  const Span stale = Impl::kPeriod * 3;
  return now - Instant(impl_->last_cycle_ns) < stale && now - Instant(impl_->last_meter_ns) < stale &&
         impl_->actuator->responsive(stale);
}

std::vector<std::string> Agent::unread() const {
  const std::lock_guard guard(impl_->meter_mutex);
  std::vector<std::string> all;
  for (const auto& m : impl_->metered) {
    if (m.unread) all.push_back(m.gpu.uuid());
  }
  return all;
}

pid_t Agent::guardian_pid() const { return impl_->keeper->guardian_pid(); }

std::vector<Agent::EngineStatus> Agent::engines() const {
  const Impl& s = *impl_;
  std::vector<EngineStatus> all;
  {
    const std::lock_guard guard(s.mutex);
    for (std::size_t i = 0; i < s.engines.size(); ++i) {
      const auto& e = s.engines[i];
      MegaHertz commanded = e.leased ? s.leases->commanded(e.instance) : s.core->view(i).clock_commanded;
      if (e.ceiling != MegaHertz(0)) commanded = std::min(commanded, e.ceiling);
      all.push_back({e.instance,
                     e.endpoint,
                     {},
                     true,
                     {},
                     {},
                     {},
                     commanded,
                     e.leased,
                     s.emulated,
                     e.pool,
                     e.bounds,
                     e.ceiling,
                     e.objectives});
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
      if (m.holder != status.instance) continue;
      status.power = Milliwatts(status.power.value() + m.meter.power().value());
      status.metered = status.metered && !m.unread;
    }
  }
  return all;
}

DecisionRing::Batch Agent::decisions(std::int64_t from) const { return impl_->decisions.since(from); }

Newest<Agent::Measured>::Batch Agent::measured(std::int64_t from) const { return impl_->port->measured.since(from); }

/// Of these engines, as far as they are ours.
std::optional<Agent::LeaseRefusal> Agent::Impl::commanded_by(const Sender& sender, const std::set<std::string>& names,
                                                             Instant now) {
  std::optional<LeaseRefusal> first;
  for (const auto& name : names) {
    Engine* const engine = engine_at(name);
    if (engine == nullptr) continue;
    if (engine->gateway.obeys(sender.gateway, sender.lease, now)) {
      contest(*engine, false, now);
      continue;
    }
    const std::string& other = engine->gateway.other_than(sender.gateway);
    if (!engine->contested) {
      net::log_line(net::LogLevel::Error,
                    "two gateways command an engine; its clock is the highest until one of them no longer does",
                    {{"engine", name}, {"gateway", other}, {"second", sender.gateway}});
    }
    contest(*engine, true, now);
    if (engine->placed_until != Instant::never())
      engine->placed_until = now + sender.lease;  // its energy stays its own
    if (!first) first = LeaseRefusal{name, true, other};
  }
  return first;
}

std::optional<Agent::LeaseRefusal> Agent::lease(const std::vector<LeasedClock>& clocks,
                                                const std::set<std::string>& named, const Sender& sender) {
  Impl& s = *impl_;
  std::vector<InstanceId> ids;
  std::set<std::string> all = named;
  for (const auto& wanted : clocks) {
    Impl::Engine* const engine = s.engine_at(wanted.engine);
    if (engine == nullptr) return LeaseRefusal{wanted.engine, false};
    if (!engine->leased) return LeaseRefusal{wanted.engine, true};
    ids.push_back(engine->instance);
    all.insert(wanted.engine);
  }
  const std::lock_guard guard(s.mutex);
  const Instant now = net::steady_now();
  s.actuator->begins();
  if (auto refused = s.commanded_by(sender, all, now)) return refused;
  for (std::size_t i = 0; i < ids.size(); ++i) (void)s.leases->grant(ids[i], clocks[i].clock, sender.lease, now);
  return std::nullopt;
}

std::optional<Agent::LeaseRefusal> Agent::place(const std::vector<Placed>& placed, const Sender& sender) {
  Impl& s = *impl_;
  std::vector<Impl::Engine*> ours;
  std::set<std::string> all;
  for (const Placed& wanted : placed) {
    Impl::Engine* const engine = s.engine_at(wanted.engine);
    if (engine == nullptr) return LeaseRefusal{wanted.engine, false};
    if (engine->leased) return LeaseRefusal{wanted.engine, true};
    ours.push_back(engine);
    all.insert(wanted.engine);
  }
  const std::lock_guard guard(s.mutex);
  const Instant now = net::steady_now();
  s.actuator->begins();
  if (auto refused = s.commanded_by(sender, all, now)) return refused;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    s.move_to(*ours[i], placed[i].pool, now);
    s.bound(*ours[i], placed[i].bounds, now);
    s.hold_to(*ours[i], placed[i].objectives, now);
    s.place(*ours[i], now + sender.lease, now);
  }
  return std::nullopt;
}

void Agent::work(const std::vector<Work>& work) {
  Impl& s = *impl_;
  const std::lock_guard guard(s.mutex);
  const Instant now = net::steady_now();
  s.actuator->begins();
  for (const Work& item : work) {
    const Impl::Engine* const engine = s.engine_at(item.engine);
    if (engine == nullptr) continue;
    if (const auto i = s.core->find(engine->instance)) s.core->work(*i, item.now, now);
    if (item.now.requests == 0) continue;
    const std::lock_guard meters(s.meter_mutex);
    s.pace.worked(now);
    if (s.meter_idle) s.meter_wake.notify_one();
  }
}

void Agent::handed_over(const std::vector<HandedOver>& all) {
  Impl& s = *impl_;
  const std::lock_guard guard(s.mutex);
  for (const HandedOver& one : all) {
    const Impl::Engine* const engine = s.engine_at(one.engine);
    if (engine == nullptr) continue;
    if (const auto i = s.core->find(engine->instance)) s.core->handed_over(*i, one.age, one.wait);
  }
}

void Agent::finished(const std::vector<Finished>& all) {
  Impl& s = *impl_;
  const std::lock_guard guard(s.mutex);
  for (const Finished& one : all) {
    const Impl::Engine* const engine = s.engine_at(one.engine);
    if (engine == nullptr) continue;
    if (const auto i = s.core->find(engine->instance)) s.core->finished(*i, one.request_class, one.requests, one.late);
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
                        !gpu.unread, gpu.failures, gpu.meter.resets()});
    }
  }
  m.actuators = s.actuator->stats();
  for (std::size_t gpu = 0; gpu < m.actuators.size(); ++gpu) m.actuators[gpu].instance = m.gpus[gpu].instance;
  m.budget = budget();
  m.keeper = s.keeper->counts();
  m.other_gpus = s.other_gpus;
  m.log_dropped = net::log_lines_lost();
  m.ready = ready();
  m.advisory = s.options.keeper.advisory;
  return m.text();
}

}  // namespace wattle::node
