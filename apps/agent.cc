// `wattle agent`: runs the recipe's frequency policy for the engines of this node and sets their GPUs' clocks.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "end_signals.h"
#include "engine_flags.h"
#include "experiment/live_fleet.h"
#include "journal/names.h"
#include "log_format.h"
#include "net/client.h"
#include "net/openai.h"
#include "net/server.h"
#include "node/agent_api.h"
#include "node/gpu/open.h"
#include "systems/compose.h"

namespace wattle::apps {
namespace {

struct Flags {
  std::string config;  ///< was read before
  bool check = false;
  std::string node;
  std::vector<std::string> engines;
  experiment::LiveFleetOptions fleet;
  std::string nvml = node::Nvml::kLibrary;
  std::string zeusd;
  std::string state = "/var/lib/wattle/agent-locks";
  std::string admin = "127.0.0.1:0";
  double ttft_ms = 0.0;
  double itl_ms = 0.0;
  double tbt_ms = 0.0;
  double e2e_ms = 0.0;
  double lost_after_s = 2.0;
  std::string gpu_locks;
  bool no_guardian = false;
  bool shadow = false;
  std::string rapl = "/sys/class/powercap";
  bool power_caps = false;
  bool slots = false;
  bool no_real_time = false;
  double watt_budget_w = 0.0;
  bool unlock = false;
  bool json = false;
  std::string log_format = "text";
};

struct EngineFlag {
  std::string endpoint;
  std::vector<std::string> gpus;
  Role role = Role::Colocated;
};

/// ENDPOINT=GPU[,GPU...][@ROLE]
Result<EngineFlag> parse_engine(const std::string& text) {
  const std::string where = "--engine " + text;
  const auto wrong = [&] {
    return bad_input(where, "is ENDPOINT=GPU[,GPU...][@prefill|@decode], as in tcp://host:5557=0,1@decode");
  };
  EngineFlag flag;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return wrong();
  flag.endpoint = text.substr(0, equals);
  if (flag.endpoint.starts_with("http://")) {  // it publishes none
    auto name = net::engine_name("", flag.endpoint, where);
    if (!name) return std::unexpected(name.error());
    flag.endpoint = std::move(*name);
  }
  std::string rest = text.substr(equals + 1);
  if (const std::size_t at = rest.find('@'); at != std::string::npos) {
    const std::string role = rest.substr(at + 1);
    rest.resize(at);
    const auto known = journal::role_from(role);
    if (!known) return wrong();
    flag.role = *known;
  }
  for (std::size_t begin = 0; begin <= rest.size();) {
    const std::size_t end = std::min(rest.find(',', begin), rest.size());
    if (end == begin) return wrong();
    flag.gpus.push_back(rest.substr(begin, end - begin));
    begin = end + 1;
  }
  return flag;
}

/// Errors: no engine is given; two have the same name.
Result<std::vector<EngineFlag>> parse_engines(const std::vector<std::string>& texts) {
  if (texts.empty()) {
    return bad_input("--engine",
                     "is needed at least once; --config takes it from this node's [[worker]]s or from [agent]");
  }
  std::vector<EngineFlag> engines;
  for (const auto& text : texts) {
    auto engine = parse_engine(text);
    if (!engine) return std::unexpected(engine.error());
    if (std::ranges::find(engines, engine->endpoint, &EngineFlag::endpoint) != engines.end()) {
      return bad_input("--engine " + text, "is the second at " + engine->endpoint + ": each engine needs its own");
    }
    engines.push_back(std::move(*engine));
  }
  return engines;
}

/// Checks that need no measurement.
Result<void> check(const std::vector<EngineFlag>& engines, const Flags& flags, const experiment::LiveFleet& fleet) {
  for (const auto& engine : engines) {
    // Where the gateway decides clocks, the agent needs fewer facts.
    if (!systems::clock_shares_admission(fleet.recipe(), engine.role)) {
      if (auto known = fleet.check_scenario(static_cast<std::int32_t>(engine.gpus.size())); !known) return known;
    } else if (flags.shadow) {
      return bad_input("--shadow", fleet.recipe().name +
                                       " decides its clocks at the gateway: set its mode there "
                                       "(--set frequency.mode=shadow)");
    }
  }
  return {};
}

/// `fleet` outlives the agent.
Result<std::vector<node::AgentEngine>> make_engines(const std::vector<EngineFlag>& wanted, const Flags& flags,
                                                    experiment::LiveFleet& fleet) {
  Slo slo;
  if (flags.ttft_ms > 0.0) slo.ttft = Span::from_seconds(flags.ttft_ms * 1e-3);
  if (flags.itl_ms > 0.0) slo.itl = Span::from_seconds(flags.itl_ms * 1e-3);
  if (flags.tbt_ms > 0.0) slo.tbt = Span::from_seconds(flags.tbt_ms * 1e-3);
  if (flags.e2e_ms > 0.0) slo.e2e = Span::from_seconds(flags.e2e_ms * 1e-3);
  std::vector<node::AgentEngine> engines;
  for (const auto& flag : wanted) {
    node::AgentEngine engine;
    engine.endpoint = flag.endpoint;
    engine.gpus = flag.gpus;
    auto& instance = engine.instance;
    instance.view.id = InstanceId(static_cast<std::int32_t>(engines.size()));
    const bool leased = systems::clock_shares_admission(fleet.recipe(), flag.role);
    const auto gpus = static_cast<std::int32_t>(flag.gpus.size());
    auto spec = leased ? Result<InstanceSpec>(fleet.facts(flag.role, gpus)) : fleet.describe(flag.role, gpus, slo);
    if (!spec) return std::unexpected(spec.error());
    instance.spec = std::make_shared<const InstanceSpec>(std::move(*spec));
    instance.view.spec = instance.spec.get();
    instance.view.clock_commanded = MegaHertz(0);  // nothing yet: the first decision is always sent
    instance.mode = systems::frequency_of(fleet.recipe(), flag.role).mode;
    if (flags.shadow && instance.mode == Mode::Enforce) instance.mode = Mode::Shadow;
    if (leased) {
      engine.leased = fleet.gpu().clock_max;  // the gateway's to decide
    } else {
      auto clock = systems::make_clock_policy(fleet.recipe(), *instance.spec, nullptr, fleet.loads());
      if (!clock) return std::unexpected(clock.error());
      // What decides by a load profile has one for each pool's classes.
      if (fleet.loads() != nullptr) {
        engine.in_pool = [&fleet, base = instance.spec](PoolId pool) -> Result<node::AgentEngine::InPool> {
          auto moved = std::make_shared<InstanceSpec>(*base);
          moved->pool = pool;
          auto made = systems::make_clock_policy(fleet.recipe(), *moved, nullptr, fleet.loads());
          if (!made) return std::unexpected(made.error());
          return node::AgentEngine::InPool{std::move(moved), std::move(made->policy)};
        };
      }
      instance.policy = std::move(clock->policy);
      instance.learner = fleet.learner(instance.spec->tensor_parallel);
      instance.overrun_slack = systems::overrun_slack(fleet.recipe(), flag.role);
    }
    engines.push_back(std::move(engine));
  }
  return engines;
}

/// Every policy decides and writes down, no clock is leased, and no budget bounds one.
bool sets_nothing(const Flags& flags, const std::vector<node::AgentEngine>& engines) {
  return flags.watt_budget_w <= 0.0 && std::ranges::all_of(engines, [](const node::AgentEngine& engine) {
           return !engine.leased && engine.instance.mode == Mode::Shadow;
         });
}

/// As node::open_gpus takes it.
std::string gpu_library(const Flags& flags) {
  return flags.zeusd.empty() ? flags.nvml : fmt::format("zeusd:{},{}", flags.zeusd, flags.nvml);
}

/// For an operator: releases the locks of an agent that died.
Result<int> unlock(const Flags& flags) {
  const auto gpus = node::open_gpus(gpu_library(flags));
  if (!gpus) return std::unexpected(gpus.error());
  node::KeeperOptions keeping;
  keeping.state_file = flags.state;
  const auto done = node::unlock_recorded(keeping, **gpus);
  if (!done) return std::unexpected(done.error());
  if (flags.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"unlocked", done->reset}, {"failed", done->failed}}.dump());
  } else {
    for (const auto& uuid : done->reset) fmt::print("{}: unlocked\n", uuid);
    for (const auto& uuid : done->failed) fmt::print("{}: did not let go; try nvidia-smi -rgc -i {}\n", uuid, uuid);
    if (done->reset.empty() && done->failed.empty()) fmt::print("{} records no locked GPU\n", flags.state);
  }
  return done->failed.empty() ? 0 : 3;
}

Result<int> run(const Flags& flags) {
  apply_log_format(flags.log_format);
  if (flags.unlock) return unlock(flags);
  const auto wanted = parse_engines(flags.engines);
  if (!wanted) return std::unexpected(wanted.error());
  if (flags.fleet.recipe.empty()) return bad_input("--recipe", "is empty; static-max leaves clocks at their highest");
  const auto address = net::parse_host_port(flags.admin, "--admin");
  if (!address) return std::unexpected(address.error());
  auto fleet = experiment::LiveFleet::load(flags.fleet);
  if (!fleet) return std::unexpected(fleet.error());
  if (auto ok = check(*wanted, flags, *fleet); !ok) return std::unexpected(ok.error());
  if (flags.check) return 0;
  auto engines = make_engines(*wanted, flags, *fleet);
  if (!engines) return std::unexpected(engines.error());

  handle_end_signals();

  node::AgentOptions options;
  options.keeper.library = gpu_library(flags);
  options.keeper.state_file = flags.state;
  options.keeper.guardian = !flags.no_guardian;
  options.keeper.gpu_locks = flags.gpu_locks;
  options.keeper.advisory = flags.shadow || sets_nothing(flags, *engines);
  options.rapl = flags.rapl;
  options.power_caps = flags.power_caps;
  options.slots = flags.slots;
  options.real_time = !flags.no_real_time && !options.keeper.advisory;
  if (flags.watt_budget_w > 0.0) options.watt_budget = to_milliwatts(Watts(flags.watt_budget_w));
  options.core.lost_after = Span::from_seconds(flags.lost_after_s);
  options.facts = fleet_facts(flags.fleet, fleet->recipe(), {flags.ttft_ms, flags.itl_ms, flags.tbt_ms, flags.e2e_ms});
  options.believed_highest = fleet->gpu().clock_max;
  journal::Sink sink;
  auto agent = node::Agent::start(options, std::move(*engines), sink);
  if (!agent) return std::unexpected(agent.error());
  net::LoopPool pool(1);
  net::ServerOptions where;
  where.host = address->host;
  where.port = address->port;
  auto server = net::HttpServer::listen(
      pool, where,
      [&agent, &fleet](std::shared_ptr<net::Exchange> e) {
        node::answer(**agent, *e, [&fleet] {
          return fmt::format(
              "# HELP wattle_agent_belief_extrapolations_total Predictions outside the range that their "
              "belief was measured in\n"
              "# TYPE wattle_agent_belief_extrapolations_total counter\n"
              "wattle_agent_belief_extrapolations_total {}\n",
              fleet->extrapolations());
        });
      },
      net::problem_json);
  if (!server) return std::unexpected(server.error());

  const std::string url = "http://" + net::HostPort{address->host, (*server)->port()}.text();
  if (flags.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"admin", url}, {"guardian_pid", (*agent)->guardian_pid()}}.dump());
  } else {
    fmt::print("agent for {} engine(s), recipe {}, metrics on {}/metrics\n", flags.engines.size(), flags.fleet.recipe,
               url);
  }
  std::fflush(stdout);
  (*agent)->run(end_wanted());
  const auto stuck = (*agent)->release();
  for (const auto& uuid : stuck) {
    net::log_line(net::LogLevel::Error, "a GPU did not let go of its clock in time; left to the guardian",
                  {{"gpu", uuid}});
  }
  (*server)->stop(Span::ms(100));
  pool.stop();
  return stuck.empty() ? 0 : 3;
}

}  // namespace

void add_agent(Command app, int& exit_code) {
  Command command = app.add_subcommand("agent", "Set this node's GPU clocks by a recipe's frequency policy");
  auto flags = std::make_shared<Flags>();
  flags->fleet.recipe = "static-max";
  add_config_flag(command, flags->config);
  add_check_flag(command, flags->check);
  command.add_option("--node", flags->node, "Name of this [[node]] in --config; may be left out if there is only one");
  command.add_option(
      "--engine", flags->engines,
      "ENDPOINT=GPU[,GPU...][@ROLE]: where an engine publishes forward-pass metrics (or its URL if it does not; the "
      "gateway then reports its load), and its GPUs by index or UUID; repeatable, at least one");
  add_fleet_flags(command, flags->fleet);
  command.add_option("--scenario", flags->fleet.scenario,
                     "Scenario whose load profile the recipe uses (dynamollm); --set also accepts its keys");
  command.add_option("--ttft-slo-ms,--ttft-ms", flags->ttft_ms, "TTFT objective: arrival to first token; 0: none")
      .check(non_negative_time());
  command.add_option("--itl-slo-ms,--itl-ms", flags->itl_ms, "ITL objective: gap between two tokens; 0: none")
      .check(non_negative_time());
  command
      .add_option("--tbt-slo-ms,--tbt-ms", flags->tbt_ms,
                  "TBT (TPOT) objective: mean gap between a request's tokens; 0: none")
      .check(non_negative_time());
  command.add_option("--e2e-slo-ms,--e2e-ms", flags->e2e_ms, "E2E objective: arrival to last token; 0: none")
      .check(non_negative_time());
  command
      .add_option("--lost-after-s", flags->lost_after_s,
                  "Time without reports, with work in flight, after which telemetry counts as lost")
      .check(positive_time())
      .capture_default_str();
  command.add_option("--nvml", flags->nvml, "NVML library; amd-smi:PATH for AMD SMI, amd-smi: for the installed one")
      .capture_default_str();
  command.add_option("--zeusd", flags->zeusd,
                     "Socket of the Zeus daemon, which sets clocks if this process may not; NVML is still used for "
                     "reading. Its token, if it needs one, is read from ZEUSD_TOKEN");
  command.add_option("--state", flags->state, "File that records which GPUs are locked").capture_default_str();
  command
      .add_option("--admin", flags->admin,
                  "host:port of /metrics, /health, /engines, /clocks, /plan and /budget; port 0: any free one")
      .capture_default_str();
  command.add_option("--gpu-locks", flags->gpu_locks,
                     "Folder in which the agents of this machine record their GPUs, so that no two agents control the "
                     "same one; default: /run/lock/wattle, for virtual GPUs next to their board");
  command.add_flag("--shadow", flags->shadow,
                   "Decide and record, but set nothing: no lock, no state, no guardian, no permission needed. Same as "
                   "frequency.mode=shadow without a watt budget");
  command.add_option("--rapl", flags->rapl, "The kernel's powercap tree, for the host's power if it is readable")
      .capture_default_str();
  command.add_flag(
      "--slots", flags->slots,
      "The engines are slots for a planner, of which only one per GPU is in use at a time: they may share GPUs");
  command.add_flag("--power-caps", flags->power_caps,
                   "Limit the power of GPUs whose clock cannot be locked; the limit is restored at the end");
  command
      .add_option("--watt-budget-w", flags->watt_budget_w,
                  "Power that the GPUs of all engines may draw together, enforced by upper bounds on their clocks; 0: "
                  "no limit. POST /budget changes it")
      .check(range(0.0, 1e6));
  command.add_flag("--no-real-time", flags->no_real_time,
                   "Run the threads that decide and call the driver at ordinary priority; default: real-time priority "
                   "if permitted (CAP_SYS_NICE)");
  command.add_flag("--unlock", flags->unlock,
                   "Unlock the GPUs that a dead agent left locked according to --state, and exit");
  command.add_flag("--no-guardian", flags->no_guardian,
                   "Do not start the guardian process, which unlocks GPUs if this one dies");
  command.add_flag("--json", flags->json, "Print the listening address as one JSON object");
  add_log_format_flag(command, flags->log_format);
  command.callback([flags, &exit_code] {
    const auto done = run(*flags);
    exit_code = done ? *done : fail(done.error());
  });
}

}  // namespace wattle::apps
