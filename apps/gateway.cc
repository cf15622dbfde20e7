#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "config/locate.h"
#include "config/service.h"
#include "config/sites.h"
#include "end_signals.h"
#include "engine_flags.h"
#include "experiment/live_fleet.h"
#include "gateway/gateway.h"
#include "gateway/run_recorder.h"
#include "gateway_policies.h"
#include "gateway_security.h"
#include "gateway_seen.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/server.h"
#include "watch_sources.h"

namespace wattle::apps {

namespace {

struct GatewayFlags {
  std::string config;  ///< was read before
  bool check = false;
  std::string listen = "127.0.0.1:8000";
  std::vector<std::string> admin{"127.0.0.1:8001"};
  std::vector<std::string> workers;
  std::vector<std::string> models;
  experiment::LiveFleetOptions fleet;
  int threads = 2;
  double ttft_slo_ms = 0;
  double itl_slo_ms = 0;
  double tbt_slo_ms = 0;
  double e2e_slo_ms = 0;
  std::vector<std::string> agents;
  std::string contract = "nixl";
  bool engine_priority = false;
  std::string journal;
  std::string name = "live";
  std::string sites;
  std::string at;
  double carbon_g_per_kwh = -1;  ///< below 0: not said
  double gpu_usd_per_h = -1;
  std::int64_t max_requests = 4096;
  std::uint64_t max_body_bytes = 8ULL << 20;
  double unready_wait_s = 5;
  double probe_timeout_s = 2;
  int probe_misses = 2;
  double drain_s = 10;
  double connect_timeout_s = 2;
  double first_byte_timeout_s = 600;
  double gap_timeout_s = 120;
  double gauges_period_ms = 250;
  std::int32_t default_max_tokens = 4096;
  std::uint64_t seed = 1;
  SecurityFlags security;
  SeenFlags seen;
  bool json = false;
};

journal::RunFacts facts_of(const GatewayFlags& flags, experiment::LiveFleet& fleet,
                           const gateway::GatewayOptions& options) {
  journal::RunFacts facts;
  facts.scenario = flags.name;
  facts.recipe = fleet.recipe().name.empty() ? "least-assigned" : fleet.recipe().name;
  facts.driver = "live";
  facts.seed = flags.seed;
  facts.slo = options.slo;
  facts.service = options.service;
  facts.service.tenants.clear();
  if (!options.workers.empty() && !fleet.recipe().name.empty()) {
    const auto alone = fleet.service_time(options.workers.front().tensor_parallel);
    if (alone) facts.fairness = FairnessBasis{.service = *alone};
  }
  for (const auto& site : options.sites) {
    if (!site.name.empty()) facts.sites.push_back({site.name, site.books_by, site.decisions_by});
  }
  for (const auto& worker : options.workers) {
    journal::Instance instance{InstanceId(static_cast<std::int32_t>(facts.instances.size())), options.kind};
    instance.spec.role = worker.role;
    instance.spec.tensor_parallel = worker.tensor_parallel;
    facts.instances.push_back(std::move(instance));
  }
  return facts;
}

Slo slo_of(const GatewayFlags& flags) {
  const auto objective = [](double ms) { return ms > 0 ? std::optional(Span::from_seconds(ms * 1e-3)) : std::nullopt; };
  return {objective(flags.ttft_slo_ms), objective(flags.itl_slo_ms), objective(flags.tbt_slo_ms),
          objective(flags.e2e_slo_ms)};
}

Result<config::Scenario> scenario_of(const GatewayFlags& flags, const std::string& file) {
  const auto overrides = config::parse_overrides(flags.fleet.overrides);
  if (!overrides) return std::unexpected(overrides.error());
  const auto split = systems::split_overrides(*overrides);
  if (!split) return std::unexpected(split.error());
  auto loaded = config::load_scenario(file, split->scenario, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  return std::move(loaded->scenario);
}

/// Classes, tiers, tenants and pools: the scenario's, sorted as the recipe says. Without a scenario there are none.
Result<void> read_service(const GatewayFlags& flags, const systems::Recipe& recipe, gateway::GatewayOptions& options) {
  config::Scenario scenario;
  if (!flags.fleet.scenario.empty()) {
    auto loaded = scenario_of(flags, flags.fleet.scenario);
    if (!loaded) return std::unexpected(loaded.error());
    scenario = std::move(*loaded);
  }
  // Objectives of the flags replace the scenario's [slo].
  const bool stated = options.slo.ttft || options.slo.itl || options.slo.tbt || options.slo.e2e;
  if (stated) scenario.slo = options.slo;
  options.service = config::make_service(scenario, recipe.classes);
  options.emergency = recipe.emergency;
  options.answers = recipe.answers;
  if (options.service.objectives) options.slo = scenario.slo;
  return {};
}

/// Carbon, prices and ways: of --sites; else by the flags; else the scenario's.
Result<void> read_sites(const GatewayFlags& flags, gateway::GatewayOptions& options,
                        std::vector<config::SiteSource>& sources) {
  const bool said = flags.carbon_g_per_kwh >= 0 || flags.gpu_usd_per_h >= 0;
  if (said && !flags.sites.empty()) {
    return bad_input("--sites", "states carbon and prices; omit --carbon-g-per-kwh and --gpu-usd-per-h");
  }
  config::Scenario scenario;
  scenario.gpu_price = UsdPerHour(std::max(0.0, flags.gpu_usd_per_h));
  if (flags.carbon_g_per_kwh >= 0) scenario.carbon_intensity = GramsPerKwh(flags.carbon_g_per_kwh);
  const auto& file = flags.sites.empty() ? flags.fleet.scenario : flags.sites;
  if (!said && !file.empty()) {
    auto loaded = scenario_of(flags, file);
    if (!loaded) return std::unexpected(loaded.error());
    scenario = std::move(*loaded);
  }
  options.unix_ns_at_zero = net::unix_ns_at_zero();
  const Instant now = net::steady_now();
  auto sites =
      config::make_sites(scenario, config::data_dir(), {now, options.unix_ns_at_zero + now.ns(), true, &log_warning});
  if (!sites) return std::unexpected(sites.error());
  sources = config::site_sources(scenario);
  std::erase_if(sources, [](const config::SiteSource& source) { return source.decides; });
  options.sites = std::move(*sites);
  const auto at = std::ranges::find(options.sites, flags.at, &carbon::SiteRates::name);
  if (!flags.at.empty() && at == options.sites.end()) return bad_input("--at", "there is no site \"" + flags.at + "\"");
  const auto trips = config::make_round_trips(scenario, config::data_dir());
  if (!trips) return std::unexpected(trips.error());
  const auto here = flags.at.empty() ? 0 : static_cast<std::size_t>(at - options.sites.begin());
  for (const auto& from : *trips) options.trips.push_back(from[here]);
  return {};
}

/// Reads the flags that do not depend on other files.
Result<void> read_flags(const GatewayFlags& flags, gateway::GatewayOptions& options,
                        std::vector<config::SiteSource>& sources) {
  const auto bind = [](const std::string& text, const char* flag, net::ServerOptions& out) -> Result<void> {
    const auto place = net::parse_host_port(text, flag);
    if (!place) return std::unexpected(place.error());
    out.host = place->host;
    out.port = place->port;
    return {};
  };
  if (auto ok = bind(flags.listen, "--listen", options.listen); !ok) return ok;
  options.admin.clear();
  for (const std::string& text : flags.admin) {
    constexpr std::string_view kUnix = "unix:";
    auto& place = options.admin.emplace_back();
    if (text.starts_with(kUnix)) {
      place.unix_path = text.substr(kUnix.size());
      if (place.unix_path.empty()) return bad_input("--admin", "unix: must be followed by a path");
    } else if (auto ok = bind(text, "--admin", place); !ok) {
      return ok;
    }
    const auto is_taken_by = [&place](const net::ServerOptions& other) {
      const bool free_port = place.unix_path.empty() && place.port == 0;
      return &other != &place && !free_port && other.unix_path == place.unix_path && other.host == place.host &&
             other.port == place.port;
    };
    if (is_taken_by(options.listen) || std::ranges::any_of(options.admin, is_taken_by)) {
      return bad_input("--admin", text + " is already used by --listen or another --admin");
    }
  }
  for (const auto& text : flags.workers) {
    const auto worker = gateway::parse_worker(text, "--worker");
    if (!worker) return std::unexpected(worker.error());
    options.workers.push_back(*worker);
  }
  if (auto ok = gateway::check_apart(options.workers, "--worker"); !ok) return ok;
  options.models = flags.models;
  options.engine_priority = flags.engine_priority;
  options.contract = flags.contract == "sglang" ? gateway::PdContract::Bootstrap : gateway::PdContract::Nixl;
  options.threads = flags.threads;
  options.seed = flags.seed;
  options.default_max_tokens = flags.default_max_tokens;
  options.max_requests = flags.max_requests;
  options.unready_wait = Span::from_seconds(flags.unready_wait_s);
  options.probe_timeout = Span::from_seconds(flags.probe_timeout_s);
  options.health_misses = flags.probe_misses;
  options.client.connect_timeout = Span::from_seconds(flags.connect_timeout_s);
  options.client.head_timeout = Span::from_seconds(flags.first_byte_timeout_s);
  options.client.body_timeout = Span::from_seconds(flags.gap_timeout_s);
  options.gauges_period = Span::from_seconds(flags.gauges_period_ms * 1e-3);
  options.listen.limits.body_bytes = flags.max_body_bytes;
  options.slo = slo_of(flags);
  options.agents.urls = flags.agents;
  if (auto ok = read_sites(flags, options, sources); !ok) return ok;
  options.kind.gpu.name = flags.fleet.gpu;
  options.kind.llm.name = flags.fleet.llm;
  return {};
}

/// Sources for the sites that name one; the ledger books by their values.
std::unique_ptr<SourceWatch> watch_books(std::vector<config::SiteSource> sources, std::int64_t unix_ns_at_zero,
                                         gateway::Gateway& gateway) {
  auto watch = std::make_unique<SourceWatch>(
      std::move(sources), unix_ns_at_zero,
      [&gateway](const config::SiteSource& source, const carbon::IntensitySeries& series) {
        gateway.set_intensity(source.site, series);
      });
  watch->start();
  return watch;
}

Result<void> run_gateway(const GatewayFlags& flags) {
  gateway::GatewayOptions options;
  std::vector<config::SiteSource> sources;
  if (auto ok = read_flags(flags, options, sources); !ok) return ok;
  auto loaded = experiment::LiveFleet::load(flags.fleet);
  if (!loaded) return std::unexpected(loaded.error());
  options.observer = apply(flags.seen);
  const auto keys = apply(flags.security, options);
  if (!keys) return std::unexpected(keys.error());

  experiment::LiveFleet fleet = std::move(*loaded);
  gateway::GatewayPolicies policies;
  if (auto ok = read_service(flags, fleet.recipe(), options); !ok) return ok;
  if (!flags.fleet.recipe.empty()) {
    auto made = make_policies(fleet, options);
    if (!made) return std::unexpected(made.error());
    policies = std::move(*made);
    options.kind.gpu = fleet.gpu();
  }
  if (flags.check) return gateway::Gateway::check(options, policies);
  options.agents.facts = fleet_facts(flags.fleet, fleet.recipe(),
                                     {flags.ttft_slo_ms, flags.itl_slo_ms, flags.tbt_slo_ms, flags.e2e_slo_ms});
  options.agents.differ = [](const std::string& url, const std::vector<std::string>& differences) {
    if (differences.empty()) {
      net::log_line(net::LogLevel::Info, "the agent's beliefs agree again", {{"agent", std::string_view(url)}});
    }
    for (const auto& what : differences) {
      net::log_line(net::LogLevel::Warning, "the agent's beliefs differ",
                    {{"agent", std::string_view(url)}, {"what", std::string_view(what)}});
    }
  };

  // Before any thread starts, so that all threads inherit the mask and only this one gets the signal.
  const sigset_t signals = block_end_signals();

  journal::Sink nowhere;
  std::optional<FileLock> journal_lock;
  std::unique_ptr<gateway::RunRecorder> recorder;
  if (!flags.journal.empty()) {
    auto lock = journal::lock_run(flags.journal);
    if (!lock) return std::unexpected(lock.error());
    journal_lock = std::move(*lock);
    const auto kept = journal::set_aside_unended(flags.journal);
    if (!kept) return std::unexpected(kept.error());
    if (!kept->empty()) {
      net::log_line(net::LogLevel::Warning, "the journal holds a run that did not end: it is kept apart",
                    {{"folder", std::string_view(*kept)}});
    }
    auto opened = gateway::RunRecorder::open(flags.journal, facts_of(flags, fleet, options));
    if (!opened) return std::unexpected(opened.error());
    recorder = std::move(*opened);
    options.journal = [&recorder] {
      return gateway::GatewayOptions::JournalState{recorder->problem(), recorder->dropped()};
    };
  }
  auto gateway = gateway::Gateway::start(options, std::move(policies), recorder ? *recorder : nowhere);
  if (!gateway) return std::unexpected(gateway.error());
  auto watch = watch_books(std::move(sources), options.unix_ns_at_zero, **gateway);
  if (recorder) recorder->ask_consumption([&gateway] { return (*gateway)->consumption(); });
  const auto url =
      (options.listen.tls ? "https://" : "http://") + net::HostPort{options.listen.host, (*gateway)->port()}.text();
  std::string admin;  // the first of either kind
  std::string socket;
  for (const auto& place : options.admin) {
    if (place.unix_path.empty() && admin.empty())
      admin = "http://" + net::HostPort{place.host, (*gateway)->admin_port()}.text();
    if (!place.unix_path.empty() && socket.empty()) socket = "unix:" + place.unix_path;
  }
  if (admin.empty()) admin = socket;
  if (flags.json) {
    nlohmann::ordered_json places{{"url", url}, {"admin", admin}};
    if (!socket.empty()) places["admin_socket"] = socket;
    fmt::print("{}\n", places.dump());
  } else {
    fmt::print("wattle gateway: listening on {}, admin on {}, {} worker(s)\n", url, admin, options.workers.size());
  }
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  watch.reset();
  (*gateway)->stop(Span::from_seconds(flags.drain_s), [&signals] { return has_come(signals); });
  if (recorder) {
    if (auto closed = recorder->close((*gateway)->consumption()); !closed) return closed;
    if (recorder->dropped() > 0) {
      net::log_line(net::LogLevel::Warning, "records of the journal were dropped", {{"records", recorder->dropped()}});
    }
  }
  const auto counts = (*gateway)->counts();
  if (!flags.json)
    fmt::print("wattle gateway: arrived {}, finished {}, rejected {}, failed {}, cancelled {}, in flight {}\n",
               counts.arrived, counts.finished, counts.rejected, counts.failed, counts.cancelled, counts.in_flight);
  if (fleet.extrapolations() > 0) {
    net::log_line(net::LogLevel::Warning, "predictions were outside the range that predictor_file was measured in",
                  {{"predictions", fleet.extrapolations()}});
  }
  return {};
}

/// Timeouts.
void add_patience_flags(Command& command, GatewayFlags& flags) {
  command
      .add_option("--unready-wait-s", flags.unready_wait_s,
                  "how long requests wait while no engine accepts them; then 503")
      .check(non_negative_time())
      .capture_default_str();
  add_drain_flag(command, flags.drain_s);
  const auto patience = [&](const char* name, double& seconds, const char* what) {
    command.add_option(name, seconds, what).check(positive_time()).capture_default_str();
  };
  patience("--probe-timeout-s", flags.probe_timeout_s,
           "timeout of an engine's health probe, which is sent every second");
  command
      .add_option("--probe-misses", flags.probe_misses,
                  "consecutive failed or unanswered probes after which an engine gets no requests until it "
                  "answers one")
      .check(range(1, 1000))
      .capture_default_str();
  patience("--connect-timeout-s", flags.connect_timeout_s, "timeout for connecting to an engine");
  patience(
      "--first-byte-timeout-s", flags.first_byte_timeout_s,
      "timeout from sending a request to an engine until the first byte of its response (its queueing and prefill)");
  patience("--gap-timeout-s", flags.gap_timeout_s, "timeout between two chunks of an engine's response");
}

}  // namespace

void add_gateway(Command app, int& exit_code) {
  Command command = app.add_subcommand("gateway", "An OpenAI-compatible gateway in front of inference engines");
  auto flags = std::make_shared<GatewayFlags>();
  add_config_flag(command, flags->config);
  add_check_flag(command, flags->check);
  command.add_option("--listen", flags->listen, "HOST:PORT for clients (data plane); port 0: any free one")
      .capture_default_str();
  command
      .add_option("--admin", flags->admin,
                  "HOST:PORT of the admin plane (/metrics, /health, /workers), or unix:PATH of a socket for it; "
                  "repeatable")
      .default_str(flags->admin.front());
  command.add_option(
      "--worker", flags->workers,
      "an engine: "
      "URL[=prefill|decode|colocated][,fpm=ENDPOINT][,load=orca][,tp=N][,bootstrap=PORT][,site=NAME][,pool=NAME][,type="
      "CLASS]"
      "[,model=NAME]...; "
      "repeatable. fpm: where it "
      "publishes forward-pass metrics; without, its load is inferred from the streams relayed, and agents name it by "
      "its URL. "
      "load=orca: its load is requested with each request, in a header, instead of by reading its gauges. "
      "model: one of --model that it has; without, all of them");
  command.add_option("--model", flags->models, "a model name clients may ask for; repeatable")
      .required()
      .check(not_empty());
  command
      .add_option("--pd-contract", flags->contract,
                  "protocol between prefill and decode engines: nixl (vLLM: prefill first, then decode pulls the KV) "
                  "or sglang (both at once, through the prefill worker's bootstrap=PORT)")
      .check(one_of({"nixl", "sglang"}))
      .capture_default_str();
  add_fleet_flags(command, flags->fleet);
  command.get_option("--recipe")
      .description("recipe to run, by name or file; default: the engine with the fewest assigned requests");
  command.add_option("--scenario", flags->fleet.scenario,
                     "scenario that defines classes, tiers, tenants and pools, and on whose load recipes that predict "
                     "whole requests are trained; --set also accepts its keys");
  command
      .add_option("--default-max-tokens", flags->default_max_tokens,
                  "maximum output tokens that policies assume for a request that states none")
      .check(positive())
      .capture_default_str();
  command.add_option("--threads", flags->threads, "data-plane threads").check(range(1, 256)).capture_default_str();
  command
      .add_option(
          "--gauges-period-ms", flags->gauges_period_ms,
          "interval for reading the load of engines without step reports (/v1/loads, /get_load or /metrics); 0: never")
      .check(range(0.0, 60'000.0))
      .capture_default_str();
  command.add_option("--agent", flags->agents,
                     "admin plane of an agent, http://host:port; repeatable. The energy that it measures is attributed "
                     "to requests, and clocks decided here are sent to it");
  command.add_option("--sites", flags->sites,
                     "a scenario, by name or file, whose [[site]]s state carbon intensity and prices (series from "
                     "files must cover the present unless the site states a start); default: --scenario's");
  command.add_option("--at", flags->at,
                     "this gateway's site (default: the first). Requests with another X-Wattle-Origin include the "
                     "round trip in their latency, if sites state their zone");
  command.add_option("--gpu-usd-per-h", flags->gpu_usd_per_h, "price of a GPU; without it or sites, cost is unknown")
      .check(range(0.0, 10'000.0));
  command
      .add_option("--carbon-g-per-kwh", flags->carbon_g_per_kwh,
                  "carbon intensity of the metered energy; 400 if nothing states it")
      .check(range(0.0, 10'000.0));
  command.add_option("--journal", flags->journal,
                     "run directory for `wattle report`: decisions (the agents', too), requests with their energy, "
                     "power and clocks; readable while it runs and after a crash");
  command.add_option("--name", flags->name, "name of the scenario in the journal").capture_default_str();
  const auto objective = [&](const char* name, double& ms, const char* what) {
    command.add_option(name, ms, fmt::format("{}; 0 = not judged", what)).check(non_negative_time());
  };
  objective("--ttft-slo-ms,--ttft-ms", flags->ttft_slo_ms, "time to first token");
  objective("--itl-slo-ms,--itl-ms", flags->itl_slo_ms, "gap between tokens");
  objective("--tbt-slo-ms,--tbt-ms", flags->tbt_slo_ms, "mean gap between a request's tokens");
  objective("--e2e-slo-ms,--e2e-ms", flags->e2e_slo_ms, "arrival to last token");
  command.add_option("--max-requests", flags->max_requests, "held and in-flight requests together; beyond: 429")
      .check(positive())
      .capture_default_str();
  command.add_option("--max-body-bytes", flags->max_body_bytes, "largest request body; beyond: 413")
      .check(positive())
      .capture_default_str();
  add_patience_flags(command, *flags);
  add_security_flags(command, flags->security);
  add_seen_flags(command, flags->seen);
  command.add_option("--seed", flags->seed, "seed of the policies' random streams").capture_default_str();
  command.add_flag("--engine-priority", flags->engine_priority,
                   "send each tenant's priority to engines in vLLM's field `priority`; they need "
                   "--scheduling-policy priority");
  command.add_flag("--json", flags->json, "Print the listening address as one JSON object");
  command.callback([flags, &exit_code] {
    if (const auto result = run_gateway(*flags); !result) exit_code = fail(result.error());
  });
}

}  // namespace wattle::apps
