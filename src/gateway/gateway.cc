#include "gateway/gateway.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "gateway/admin_api.h"
#include "gateway/worker_place.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/server.h"
#include "net/tls.h"

namespace wattle::gateway {

namespace {
constexpr Span kRangesLookedAt = Span::ms(200);  ///< whether their lease is over
constexpr Span kTick = Span::ms(100);
constexpr Span kReadingsMost = Span::s(1);  ///< the end waits so long for meters
constexpr Span kKeysLookedAt = Span::s(1);
constexpr Span kTimeOfDayLookedAt = Span::s(1);
constexpr Span kSet = Span::s(1);  ///< a time of day that is off by less was not set: two clocks were not read at once

/// Connections of clients, each of which may need one to an engine, too; the rest is for the admin plane, agents,
/// files.
std::int32_t most_connections(std::int32_t wanted, std::int64_t spare) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  const auto there = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
  const std::int64_t kept = std::min(spare, there / 2);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>((there - kept) / 2, 1, wanted));
}
}  // namespace

struct Gateway::Impl {
  GatewayOptions options;
  net::LoopPool pool;
  net::LoopPool admin_pool{1};
  GatewayMetrics metrics;
  std::unique_ptr<AgentLinks> agents;         ///< null: none
  std::unique_ptr<RequestObserver> observer;  ///< null: nobody asks how requests ended
  LiveLedger ledger;                          ///< on the control strand only
  PromptScale prompts;
  std::unique_ptr<LengthFeed> lengths;  ///< null: nobody learns them
  Objectives objectives;
  Tenants tenants;
  ControlStrand control;
  WorkerRegistry workers;
  ClientApi clients_api;
  AdminApi admin_api;
  std::vector<std::unique_ptr<net::HttpClient>> clients;  ///< by loop of the pool
  std::vector<std::unique_ptr<RelayContext>> contexts;
  std::unique_ptr<net::HttpServer> server;
  std::vector<std::unique_ptr<net::HttpServer>> admins;
  Span ahead;  ///< the time of day was set by that since the sites' series were made; on the admin loop
  bool stopped = false;

  static control::FleetLoopOptions request_options(const GatewayOptions& o) {
    control::FleetLoopOptions loop;
    loop.max_requests = o.max_requests;
    loop.both_legs_at_once = o.contract == PdContract::Bootstrap;
    loop.unready_wait = o.unready_wait;
    loop.models = static_cast<int>(o.models.size());
    loop.service = o.service;
    loop.slo = o.slo;
    loop.emergency = o.emergency;
    loop.answers = o.answers;
    return loop;
  }

  Impl(const GatewayOptions& o, GatewayPolicies policies, std::unique_ptr<AgentLinks> links,
       std::unique_ptr<RequestObserver> observed_by, journal::Sink& sink)
      : options(o),
        pool(std::max(1, o.threads)),
        agents(std::move(links)),
        observer(std::move(observed_by)),
        ledger(o.sites, sink, o.service),
        lengths(policies.lengths ? std::make_unique<LengthFeed>(std::move(policies.lengths)) : nullptr),
        objectives(o.service.judged(o.slo)),
        tenants(o.service.tenants),
        control(std::move(policies.dispatch), o.seed, request_options(o),
                watch_options(o.lost_after, policies.hosts_clocks), ledger),
        workers(options, control, agents.get(), std::move(policies.describe),
                [this](const std::shared_ptr<const Worker>& worker, bool left) { engine_lost(worker, left); }),
        clients_api(options, control, workers, tenants, metrics),
        admin_api(options, control, workers, clients_api, tenants, metrics, agents.get(), ledger,
                  [this] { return server ? server->connections() : 0; }) {
    admin_api.set_extrapolations(std::move(policies.extrapolations));
    admin_api.set_observer(observer.get());
    admin_api.set_lengths(lengths.get());
    admin_api.set_resent([this] {
      std::int64_t all = 0;
      for (const auto& client : clients) all += client->retries();
      return all;
    });
    options.models_alike = policies.hosts_clocks;
    options.listen.max_connections = most_connections(options.listen.max_connections, options.spare_descriptors);
    admin_api.set_queueing(std::move(policies.queueing));
  }

  WatchOptions watch_options(Span lost_after, bool hosts_clocks) {
    WatchOptions watch{{lost_after}, hosts_clocks ? agents.get() : nullptr, &ledger};
    if (agents && !hosts_clocks) {
      watch.placed = [this](InstanceId id, const Placed& placed) { agents->place(id, placed); };
    }
    if (agents) {
      watch.work = [this](InstanceId id, const control::InstanceWork& work) { agents->work(id, work); };
      watch.handed_over = [this](InstanceId id, Span age, Span wait) { agents->handed_over(id, age, wait); };
      watch.finished = [this](InstanceId id, ClassId of, bool late) { agents->finished(id, of, late); };
    }
    return watch;
  }

  /// Each relay that is at an engine now, on its own loop.
  void each_relay(const std::function<void(Relay&)>& act) {
    for (int i = 0; i < pool.size(); ++i) {
      pool.at(i).post([act, context = contexts[static_cast<std::size_t>(i)].get()] {
        // Kept alive while they end: ending takes them out of the set.
        std::vector<std::shared_ptr<Relay>> there;
        for (const auto& [key, relay] : context->relays) there.push_back(relay.lock());
        for (const auto& relay : there) {
          if (relay) act(*relay);
        }
      });
    }
  }

  void engine_lost(const std::shared_ptr<const Worker>& worker, bool left) {
    each_relay([worker, left, silence = options.lost_after](Relay& relay) {
      left ? relay.worker_left(*worker) : relay.worker_lost(worker->id, silence);
    });
  }

  void make_decks() {
    for (int i = 0; i < pool.size(); ++i) {
      pool.at(i).run([&] { clients.push_back(std::make_unique<net::HttpClient>(pool.at(i), options.client)); });
      contexts.push_back(std::make_unique<RelayContext>(RelayContext{
          *clients.back(), control, metrics, metrics.of_loop(), prompts, objectives, options.client.head_timeout,
          [this](InstanceId id) { workers.refused_connection(id); },
          [this](InstanceId id) { workers.denied_model(id); }, options.via, options.contract, options.engine_priority,
          options.keys != nullptr, std::mt19937_64(std::random_device{}()), observer.get(), lengths.get()}));
    }
  }

  Result<void> listen() {
    make_decks();
    auto data = net::HttpServer::listen(
        pool, options.listen,
        [this](std::shared_ptr<net::Exchange> exchange) {
          for (int i = 0; i < pool.size(); ++i) {
            if (&pool.at(i) != &exchange->loop()) continue;
            return clients_api.handle(exchange, *contexts[static_cast<std::size_t>(i)]);
          }
        },
        [](int status, std::string_view what) {
          return net::problem_json(status, std::string(what) + (status == 413 ? " (--max-body-bytes)" : ""));
        });
    if (!data) return std::unexpected(data.error());
    server = std::move(*data);
    for (const net::ServerOptions& place : options.admin) {
      auto other = net::HttpServer::listen(
          admin_pool, place, [this](std::shared_ptr<net::Exchange> exchange) { admin_api.handle(exchange); },
          net::problem_json);
      if (!other) return std::unexpected(other.error());
      admins.push_back(std::move(*other));
    }
    if (auto started = workers.start(); !started) return started;
    if (agents) {
      agents->start({[this](const EngineReading& reading) { control.reading(reading); },
                     [this](const journal::DecisionRecord& record) { control.decided(record); },
                     [this](std::vector<MeasuredStep> steps) { control.learn(std::move(steps)); }});
    }
    if (options.emergency.mode != Mode::Off) {
      admin_pool.at(0).every(options.emergency.period, [this] { control.tick(); });
    }
    if (workers.feed() == nullptr) admin_pool.at(0).every(kTick, [this] { control.tick(); });  // else the feed does
    admin_pool.at(0).every(kRangesLookedAt, [this] {
      control.run([this](control::FleetLoop&, Instant now) { control.end_ranges(now); });
    });
    if (options.keys != nullptr || options.listen.tls != nullptr) {
      admin_pool.at(0).every(kKeysLookedAt, [this] { look_at_files(); });
    }
    if (std::ranges::any_of(options.sites, &carbon::SiteRates::by_time_of_day)) {
      admin_pool.at(0).every(kTimeOfDayLookedAt, [this] { follow_time_of_day(); });
    }
    if (options.probe_health) workers.start_probing(admin_pool.at(0));
    return {};
  }

  /// A clock that was wrong at the start is put right, a machine that slept wakes up: series are of the time that it
  /// is.
  void follow_time_of_day() {
    const Span now_ahead(net::unix_ns_at_zero() - options.unix_ns_at_zero);
    const Span set = now_ahead - ahead;
    if (set < kSet && -set < kSet) return;
    ahead = now_ahead;
    net::log_line(net::LogLevel::Warning, "the time of day was set: sites' carbon and prices are those of the new one",
                  {{"seconds", set.seconds()}});
    control.run([this, now_ahead](control::FleetLoop&, Instant) { ledger.time_of_day_is(now_ahead); });
  }

  /// Said once: keys and certificate stay as they were until the file is right again.
  void look_at_files() {
    const auto say = [](std::string_view what, const std::optional<Error>& problem) {
      if (problem) net::log_line(net::LogLevel::Error, what, {{"error", problem->message()}});
    };
    if (options.keys) say("keys are left as they were", options.keys->look());
    if (options.listen.tls) say("the certificate is left as it was", options.listen.tls->look());
  }

  /// What has ended last is paid for by the meters' next readings.
  void await_readings(const std::function<bool()>& at_once) {
    const Instant patience = net::steady_now() + kReadingsMost;
    const auto waits = [this] {
      bool any = false;
      control.run_and_wait([&](control::FleetLoop&, Instant) { any = ledger.waits_for_readings(); });
      return any;
    };
    while (waits() && net::steady_now() < patience && !(at_once && at_once())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  void stop(Span grace, const std::function<bool()>& at_once) {
    if (stopped) return;
    stopped = true;
    clients_api.stopping();
    if (server)
      server->stop(
          grace, [this] { each_relay([](Relay& relay) { relay.cut_off(); }); }, at_once);
    for (const auto& admin : admins) admin->stop(Span());
    if (agents) await_readings(at_once);
    workers.stop_feed();
    if (agents) agents->stop();
    control.run_and_wait([&](control::FleetLoop&, Instant now) { ledger.close(now); });
    if (observer) observer->stop();
    workers.stop_probing(admin_pool.at(0));
    for (int i = 0; i < static_cast<int>(clients.size()); ++i) {
      pool.at(i).run([&] { clients[static_cast<std::size_t>(i)].reset(); });
    }
    pool.stop();
    admin_pool.stop();
  }
};

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gateway::~Gateway() { stop(Span()); }

Result<void> Gateway::check(GatewayOptions options, const GatewayPolicies& policies) {
  if (options.models.size() > control::kMostModels) {
    return bad_input("--model", fmt::format("at most {} models are served by one gateway", control::kMostModels));
  }
  if (auto ok = AgentLinks::check(options.agents); !ok) return ok;
  if (auto ok = RequestObserver::check(options.observer); !ok) return ok;
  options.models_alike = policies.hosts_clocks;
  for (const WorkerOptions& worker : options.workers) {
    const auto place = place_of(worker, options, options.service.classes, WorkerRegistry::flag_of(worker));
    if (!place) return std::unexpected(place.error());
  }
  return {};
}

Result<std::unique_ptr<Gateway>> Gateway::start(const GatewayOptions& options, GatewayPolicies policies,
                                                journal::Sink& sink) {
  if (auto ok = check(options, policies); !ok) return std::unexpected(ok.error());
  GatewayOptions named = options;
  std::random_device random;
  named.via = named.agents.name = fmt::format("wattle-{:08x}{:08x}", random(), random());
  std::unique_ptr<AgentLinks> links;
  if (!options.agents.urls.empty()) {
    auto made = AgentLinks::make(named.agents);
    if (!made) return std::unexpected(made.error());
    links = std::move(*made);
  }
  std::unique_ptr<RequestObserver> observer;
  if (options.observer.on()) {
    auto made = RequestObserver::start(options.observer);
    if (!made) return std::unexpected(made.error());
    observer = std::move(*made);
  }
  auto gateway = std::unique_ptr<Gateway>(
      new Gateway(std::make_unique<Impl>(named, std::move(policies), std::move(links), std::move(observer), sink)));
  if (auto listening = gateway->impl_->listen(); !listening) return std::unexpected(listening.error());
  return gateway;
}

std::uint16_t Gateway::port() const { return impl_->server->port(); }
std::uint16_t Gateway::admin_port() const {
  const auto tcp = std::ranges::find_if(impl_->admins, [](const auto& admin) { return admin->port() != 0; });
  return tcp == impl_->admins.end() ? std::uint16_t{0} : (*tcp)->port();
}

journal::RequestCounts Gateway::counts() const {
  journal::RequestCounts counts;
  impl_->control.run_and_wait([&](control::FleetLoop& core, Instant) { counts = core.counts(); });
  return counts;
}

journal::Consumption Gateway::consumption() const {
  journal::Consumption made;
  impl_->control.run_and_wait([&](control::FleetLoop&, Instant) {
    made = impl_->ledger.consumption([this](TenantId id) { return impl_->tenants.name_of(id); });
  });
  return made;
}

void Gateway::set_intensity(SiteId site, carbon::IntensitySeries intensity) {
  impl_->control.run([this, site, intensity = std::move(intensity)](control::FleetLoop&, Instant) {
    impl_->ledger.set_intensity(site, intensity);
  });
}

void Gateway::stop(Span grace, const std::function<bool()>& at_once) { impl_->stop(grace, at_once); }

}  // namespace wattle::gateway
