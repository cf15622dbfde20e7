// `wattle planner`: carries out a recipe's scaling policy with real processes. It starts and ends engines and announces
// them to the gateway over its admin plane; requests do not pass through it. Or one of the managers that plan for it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "commands.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "config/sites.h"
#include "end_signals.h"
#include "engine_flags.h"
#include "experiment/load_profile.h"
#include "experiment/lowest_clocks.h"
#include "experiment/saturation.h"
#include "experiment/site_fleet.h"
#include "gateway_security.h"
#include "log_format.h"
#include "managers/hierarchy.h"
#include "net/answers.h"
#include "net/browser.h"
#include "net/clock.h"
#include "net/openai.h"
#include "net/server.h"
#include "planner/manager_service.h"
#include "planner/planned_fleet.h"
#include "systems/compose.h"
#include "systems/recipe.h"
#include "watch_sources.h"

namespace wattle::apps {
namespace {

constexpr Span kTurn = Span::ms(100);  ///< between two looks at the engines

struct PlannerFlags {
  std::string config;  ///< was read before
  bool check = false;
  std::string level = "fleet";
  std::string scenario;
  std::string recipe;
  std::vector<std::string> set;
  std::string gateway;
  std::string gateway_token_file;
  std::vector<std::string> slots;
  std::vector<std::string> managers;
  std::string above;
  std::vector<std::int32_t> pools;
  std::string admin = "127.0.0.1:0";
  std::string logs;
  std::string state;
  double clock_lease_s = 60.0;
  double drain_s = 10.0;
  double cut_off_after_s = 10.0;
  double cut_off_pause_s = 60.0;
  bool json = false;
  std::string log_format = "text";
};

/// Checks flags that only some levels of the hierarchy have.
Result<void> check_level(const PlannerFlags& flags) {
  const bool fleet = flags.level == "fleet";
  if (fleet && flags.gateway.empty()) return bad_input("--gateway", "is needed: the URL of its admin plane");
  if (fleet && flags.slots.empty()) return bad_input("--slot", "is needed at least once");
  if (!fleet && !(flags.gateway.empty() && flags.slots.empty() && flags.managers.empty())) {
    return bad_input("--level " + flags.level,
                     "does not start engines: --gateway, --slot and --manager are for --level fleet");
  }
  if (std::set<std::string>(flags.managers.begin(), flags.managers.end()).size() < flags.managers.size()) {
    return bad_input("--manager", "is named twice: a pool has one manager");
  }
  if (flags.level == "pool" && flags.above.empty()) return bad_input("--above", "is needed: the cluster manager's URL");
  if (flags.level != "pool" && !(flags.above.empty() && flags.pools.empty())) {
    return bad_input("--level " + flags.level, "--above and --pools are for --level pool");
  }
  return {};
}

struct Inputs {
  config::LoadedScenario scenario;
  systems::Recipe recipe;
  systems::ScalingInputs scaling;
  std::int64_t begun_unix_ns = 0;  ///< Instant() of the sites' series, where they are of the present
};

/// Sites with their GPUs, what workers carry there, and their electricity from this moment on.
Result<std::shared_ptr<const systems::SiteFleet>> read_sites(const config::LoadedScenario& loaded,
                                                             const systems::Recipe& recipe, std::int64_t unix_ns) {
  auto sites = config::make_sites(loaded.scenario, config::data_dir(), {Instant(), unix_ns, true, &log_warning});
  if (!sites) return std::unexpected(sites.error());
  std::vector<std::unique_ptr<engine::StepModel>> models;
  for (std::size_t p = 0; p < loaded.scenario.pools.size(); ++p) {
    const auto& pool = loaded.scenario.pools[p];
    auto model = config::make_step_model(loaded.gpus[p], loaded.llm, pool.tensor_parallel,
                                         config::engine_of(loaded.scenario, pool));
    if (!model) return std::unexpected(model.error());
    models.push_back(std::make_unique<engine::StepModel>(std::move(*model)));
  }
  return experiment::site_fleet(loaded, recipe, config::data_dir(), models,
                                std::make_shared<const std::vector<carbon::SiteRates>>(std::move(*sites)));
}

/// Scenario and recipe as stated.
Result<Inputs> read_stated(const PlannerFlags& flags) {
  const auto set = config::parse_overrides(flags.set);
  if (!set) return std::unexpected(set.error());
  const auto overrides = systems::split_overrides(*set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto stated = config::load_scenario(flags.scenario, overrides->scenario, config::project());
  if (!stated) return std::unexpected(stated.error());
  auto recipe = systems::load_recipe(flags.recipe, overrides->recipe, config::project());
  if (!recipe) return std::unexpected(recipe.error());
  return Inputs{*stated, std::move(recipe->recipe), {}};
}

/// With everything that has to be measured or fitted first, which may take minutes.
Result<Inputs> read_inputs(const PlannerFlags& flags) {
  auto inputs = read_stated(flags);
  if (!inputs) return inputs;
  // Load profiles say what instances carry, and by class.
  const bool by_profile = inputs->recipe.scales() && systems::needs_load_profile(inputs->recipe);
  const bool by_site = systems::needs_sites(inputs->recipe);
  auto loaded =
      experiment::with_loads(inputs->scenario, !by_profile && !by_site && flags.managers.empty(), config::data_dir());
  if (!loaded) return std::unexpected(loaded.error());
  inputs->scenario = std::move(*loaded);
  if (!(by_profile || by_site) || !flags.managers.empty()) return inputs;
  if (by_profile) {
    auto loads = experiment::scenario_profile(inputs->scenario, inputs->recipe.classes, config::data_dir(),
                                              experiment::profile_request(inputs->recipe));
    if (!loads) return std::unexpected(loads.error());
    inputs->scaling.loads = std::move(*loads);
    auto lowest = experiment::lowest_clocks(inputs->scenario, inputs->recipe);
    if (!lowest) return std::unexpected(lowest.error());
    inputs->scaling.lowest_clocks = std::move(*lowest);
  } else {
    inputs->begun_unix_ns = net::unix_now_ns();
    auto sites = read_sites(inputs->scenario, inputs->recipe, inputs->begun_unix_ns);
    if (!sites) return std::unexpected(sites.error());
    inputs->scaling.sites = std::move(*sites);
  }
  const auto busiest = experiment::busiest_rates(inputs->scenario, inputs->recipe.classes, config::data_dir());
  if (!busiest) return std::unexpected(busiest.error());
  for (const double rate : *busiest) inputs->scaling.past.push_back({rate});
  return inputs;
}

/// Sources for the sites that name one. A site decides by its source for decisions, else by the ledger's.
std::unique_ptr<SourceWatch> watch_sources(const config::Scenario& scenario, std::int64_t begun_unix_ns,
                                           systems::ScalingInputs& scaling) {
  auto sources = config::site_sources(scenario);
  std::erase_if(sources, [&](const config::SiteSource& source) {
    return !source.decides && scenario.sites[static_cast<std::size_t>(source.site.value())].decisions.stated();
  });
  if (sources.empty() || !scaling.sites) return nullptr;
  auto watch = std::make_unique<SourceWatch>(std::move(sources), begun_unix_ns);
  watch->ask_all();  // the first plan holds for an epoch
  watch->start();
  auto fleet = std::make_shared<systems::SiteFleet>(*scaling.sites);
  fleet->intensity = [watch = watch.get(), files = fleet->intensity](std::size_t n, Instant now) {
    const SiteId site(static_cast<std::int32_t>(n));
    return watch->watches(site) ? watch->at(site, now) : files(n, now);
  };
  scaling.sites = std::move(fleet);
  return watch;
}

/// Sites without a stated start use the time of day. It is read again here, because the clock may have been set and
/// reading the inputs takes time. The planner's time starts now.
void follow_time_of_day(const config::Scenario& scenario, std::int64_t begun_unix_ns, systems::ScalingInputs& scaling) {
  if (!scaling.sites || scenario.sites.empty()) return;
  const auto there = [begun_unix_ns, begins = net::steady_now(), sites = scenario.sites](std::size_t n, Instant t) {
    if (!sites[n].start.empty()) return t;
    return t + (Span(net::unix_now_ns() - begun_unix_ns) - (net::steady_now() - begins));
  };
  auto fleet = std::make_shared<systems::SiteFleet>(*scaling.sites);
  fleet->intensity = [known = fleet->intensity, there](std::size_t n, Instant t) { return known(n, there(n, t)); };
  if (fleet->price) {
    fleet->price = [known = fleet->price, there](std::size_t n, Instant t) { return known(n, there(n, t)); };
  }
  scaling.sites = std::move(fleet);
}

/// What listens on --admin. Bound before any engine is touched: a port that is taken costs nothing.
class AdminPlane {
 public:
  static Result<std::unique_ptr<AdminPlane>> listen(const PlannerFlags& flags, const net::RequestHandler& handler) {
    const auto address = net::parse_host_port(flags.admin, "--admin");
    if (!address) return std::unexpected(address.error());
    auto plane = std::make_unique<AdminPlane>();
    net::ServerOptions where;
    where.host = address->host;
    where.port = address->port;
    auto server = net::HttpServer::listen(
        plane->pool_, where,
        [handler](std::shared_ptr<net::Exchange> e) {
          if (!net::refused_as_page(*e) && !net::refused_as_too_deep(*e)) handler(std::move(e));
        },
        net::problem_json);
    if (!server) return std::unexpected(server.error());
    plane->server_ = std::move(*server);
    plane->url_ = "http://" + net::HostPort{address->host, plane->server_->port()}.text();
    return plane;
  }

  /// Runs until a signal arrives and calls `turn` periodically.
  void serve(const PlannerFlags& flags, const std::string& what, const std::function<void()>& turn) {
    if (flags.json) {
      fmt::print("{}\n", nlohmann::ordered_json{{"admin", url_}}.dump());
    } else {
      fmt::print("{}, recipe {}, on {}\n", what, flags.recipe, url_);
    }
    std::fflush(stdout);
    while (!end_wanted()) {
      turn();
      usleep(static_cast<useconds_t>(kTurn.ns() / 1000));
    }
  }
  ~AdminPlane() {
    if (server_) server_->stop(Span::ms(100));
    pool_.stop();
  }

 private:
  net::LoopPool pool_{1};
  std::unique_ptr<net::HttpServer> server_;
  std::string url_;
};

/// So that a manager that restarts has the epochs of the one before: time since midnight, UTC, by the steady clock.
std::function<Instant()> clock_of_day() {
  constexpr std::int64_t kDay_ns = 86'400'000'000'000;
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t of_day = std::chrono::nanoseconds(wall).count() % kDay_ns;
  return [since = net::steady_now(), of_day] { return Instant(of_day) + (net::steady_now() - since); };
}

Result<void> run_managers(const PlannerFlags& flags, const Inputs& inputs) {
  systems::ScalingInputs scaling = inputs.scaling;
  const auto& spawn = inputs.scenario.scenario.spawn;
  for (const auto& pool : inputs.scenario.scenario.pools) {
    scaling.shapes.push_back({pool.tensor_parallel, pool.max_load_per_s, spawn.load + spawn.warm});
  }
  scaling.cluster = config::cluster_of(inputs.scenario);
  auto policy = systems::make_scaling_policy(inputs.recipe, std::move(scaling));
  if (!policy) return std::unexpected(policy.error());
  auto levels = std::dynamic_pointer_cast<managers::Hierarchy>(*policy);
  if (!levels)
    return bad_input("--level " + flags.level, "the recipe's [scaling] policy has no managers at several levels");
  std::vector<std::size_t> mine;
  for (const std::int32_t pool : flags.pools) {
    if (pool < 0 || static_cast<std::size_t>(pool) >= levels->pools().pools()) {
      return bad_input("--pools", fmt::format("the recipe makes pools 0 to {}", levels->pools().pools() - 1));
    }
    mine.push_back(static_cast<std::size_t>(pool));
  }
  std::ranges::sort(mine);
  mine.erase(std::ranges::unique(mine).begin(), mine.end());
  if (!mine.empty()) levels->pool_level().only(std::move(mine));
  planner::ClusterService cluster(levels);
  planner::PoolService pools(levels, flags.above);
  const auto now = clock_of_day();
  const bool above = flags.level == "cluster";
  auto plane = AdminPlane::listen(flags, [&, above](std::shared_ptr<net::Exchange> e) {
    if (e->path() == "/health") return e->respond(200, "text/plain", "ready\n");
    if (e->path() != "/observe") return answer_problem(*e, 404, "no such path; POST /observe, GET /health");
    if (!only(*e, {"POST"})) return;
    const std::string body(e->body());
    const auto said = above ? cluster.observe(body, now()) : pools.observe(body, now());
    e->respond(said.status, "application/json", said.body);
  });
  if (!plane) return std::unexpected(plane.error());
  (*plane)->serve(flags, above ? "cluster manager" : "pool managers", [] {});
  return {};
}

Result<std::vector<planner::EngineSlot>> parse_slots(const PlannerFlags& flags, const config::Scenario& scenario) {
  std::vector<planner::EngineSlot> slots;
  for (const auto& text : flags.slots) {
    auto slot = planner::parse_slot(text, scenario);
    if (!slot) return std::unexpected(slot.error());
    if (std::ranges::find(slots, slot->fpm, &planner::EngineSlot::fpm) != slots.end()) {
      return bad_input("--slot " + text, "is the second at " + slot->fpm + ": each engine needs its own");
    }
    slots.push_back(std::move(*slot));
  }
  return slots;
}

Result<std::string> gateway_token(const PlannerFlags& flags) {
  if (flags.gateway_token_file.empty()) return std::string();
  return secret_of(flags.gateway_token_file, "--gateway-token-file");
}

Result<void> check(const PlannerFlags& flags) {
  const auto address = net::parse_host_port(flags.admin, "--admin");
  if (!address) return std::unexpected(address.error());
  const auto stated = read_stated(flags);
  if (!stated) return std::unexpected(stated.error());
  const auto slots = parse_slots(flags, stated->scenario.scenario);
  if (!slots) return std::unexpected(slots.error());
  const auto token = gateway_token(flags);
  return token ? Result<void>() : std::unexpected(token.error());
}

Result<void> run_fleet(const PlannerFlags& flags, const Inputs& inputs) {
  auto slots = parse_slots(flags, inputs.scenario.scenario);
  if (!slots) return std::unexpected(slots.error());
  const auto token = gateway_token(flags);
  if (!token) return std::unexpected(token.error());
  systems::ScalingInputs scaling = inputs.scaling;
  const auto watch = watch_sources(inputs.scenario.scenario, inputs.begun_unix_ns, scaling);
  follow_time_of_day(inputs.scenario.scenario, inputs.begun_unix_ns, scaling);
  planner::PlannedFleet planner(inputs.scenario, std::move(*slots),
                                {flags.gateway, flags.logs.empty() ? temporary_folder().string() : flags.logs,
                                 flags.state, Span::from_seconds(flags.clock_lease_s), flags.managers, scaling, *token,
                                 Span::from_seconds(flags.cut_off_after_s), Span::from_seconds(flags.cut_off_pause_s),
                                 Span::from_seconds(flags.drain_s)});
  std::atomic<bool> begun{false};
  auto plane = AdminPlane::listen(flags, [&planner, &begun](std::shared_ptr<net::Exchange> e) {
    const bool plan = e->path() == "/plan";
    if (!plan && e->path() != "/fleet") return answer_problem(*e, 404, "no such path; GET /fleet, POST /plan");
    if (!only(*e, {plan ? "POST" : "GET"})) return;
    if (!begun) return answer_problem(*e, 503, "the first engines are coming up");
    if (!plan) return e->respond(200, "application/json", planner.fleet_json());
    const auto taken = planner.give(std::string(e->body()));
    if (!taken) return answer_problem(*e, 400, taken.error().message());
    answer_json(*e, 202, {{"status", "accepted"}});
  });
  if (!plane) return std::unexpected(plane.error());
  if (auto ok = planner.begin(inputs.recipe); !ok) return ok;
  begun = true;
  (*plane)->serve(flags, "planner for " + flags.gateway, [&planner] { planner.turn(); });
  plane->reset();
  planner.end();
  return {};
}

Result<void> run(const PlannerFlags& flags) {
  apply_log_format(flags.log_format);
  if (auto ok = check_level(flags); !ok) return ok;
  if (flags.check) return check(flags);
  const auto inputs = read_inputs(flags);
  if (!inputs) return std::unexpected(inputs.error());
  handle_end_signals(SecondSignal::EndsAtOnce);  // the second one does not wait for anything
  return flags.level == "fleet" ? run_fleet(flags, *inputs) : run_managers(flags, *inputs);
}

}  // namespace

void add_planner(Command app, int& exit_code) {
  Command command = app.add_subcommand("planner", "Start and end engines by a recipe's scaling policy");
  auto flags = std::make_shared<PlannerFlags>();
  add_config_flag(command, flags->config);
  add_check_flag(command, flags->check);
  command
      .add_option("scenario,--scenario", flags->scenario,
                  "The scenario; its [[fleet]] entries are the engines that may be started")
      .required();
  command.add_option("--recipe", flags->recipe, "The recipe; without a [scaling] policy, plans come by POST /plan")
      .required();
  command.add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  command
      .add_option("--level", flags->level,
                  "fleet: start and end engines, with all of the recipe's managers in this process, or with those "
                  "that --manager names; pool, cluster: run this manager of DynamoLLM as a separate process "
                  "(docs/plan-protocol.md)")
      .check(one_of({"fleet", "pool", "cluster"}))
      .capture_default_str();
  command.add_option("--manager", flags->managers, "fleet: URL of a pool manager; repeatable");
  command.add_option("--above", flags->above, "pool: URL of the cluster manager");
  command.add_option("--pools", flags->pools, "pool: the pools to plan, numbered from 0; default: all").delimiter(',');
  command.add_option("--gateway", flags->gateway, "fleet: URL of the gateway's admin plane, or unix:PATH");
  command.add_option("--gateway-token-file", flags->gateway_token_file, "fleet: the gateway's --admin-token-file");
  command.add_option("--slot", flags->slots,
                     "POOL=GPU[,GPU...]@ENDPOINT[,node=N]: GPUs on which an engine of the POOL-th [[fleet]] (from 0) "
                     "may run, and where it publishes forward-pass metrics; N: the GPUs' node in plans (default 0); "
                     "repeatable");
  command
      .add_option("--admin", flags->admin,
                  "host:port of /fleet and /plan, or of a manager's /observe; port 0: any free one")
      .capture_default_str();
  command
      .add_option("--logs", flags->logs, "Folder for engines' stderr, created if missing; default: TMPDIR, else /tmp")
      .capture_default_str();
  command.add_option("--state", flags->state,
                     "Folder, created if missing, through which the next planner finds this one's engines: they "
                     "continue to serve when it ends or dies. Without it they end with it");
  command
      .add_option("--drain-s", flags->drain_s,
                  "How long running requests may continue before engines end: without --state on SIGINT/SIGTERM, with "
                  "it those of a predecessor's engines that are on no --slot")
      .check(range(0.0, 86'400.0))
      .capture_default_str();
  command
      .add_option("--clock-lease-s", flags->clock_lease_s,
                  "How long a plan's clock ranges hold after this planner has gone")
      .check(range(0.1, 3600.0))
      .capture_default_str();
  command
      .add_option("--cut-off-after-s", flags->cut_off_after_s,
                  "A node is cut off, and left out of plans, when the gateway has reached none of its engines for "
                  "this long")
      .check(range(0.1, 86'400.0))
      .capture_default_str();
  command
      .add_option("--cut-off-pause-s", flags->cut_off_pause_s,
                  "A cut-off node is tried again after this time, then after twice as long")
      .check(range(0.1, 86'400.0))
      .capture_default_str();
  command.add_flag("--json", flags->json, "Print the listening address as one JSON object");
  add_log_format_flag(command, flags->log_format);
  command.callback([flags, &exit_code] {
    if (const auto done = run(*flags); !done) exit_code = fail(done.error());
  });
}

}  // namespace wattle::apps
