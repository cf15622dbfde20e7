#include "testbed/emulated_fleet.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "config/engine_arguments.h"
#include "config/fleet_check.h"
#include "config/locate.h"
#include "config/nodes.h"
#include "journal/names.h"
#include "net/server.h"
#include "virtual_gpu/virtual_gpu.h"

namespace wattle::testbed {

namespace {

std::string number(double value) { return fmt::format("{}", value); }

/// Places of a [[fleet]] entry; where a planner starts engines, each shape has at least one.
std::int32_t places(const config::PoolOptions& pool, bool scales) {
  return scales ? std::max(pool.count, 1) : pool.count;
}

FleetEngine engine_of(const config::PoolOptions& pool, std::int32_t first_gpu) {
  FleetEngine made;
  made.role = pool.role;
  made.site = pool.site;
  for (std::int32_t g = 0; g < pool.tensor_parallel; ++g) made.gpus.push_back(std::to_string(first_gpu + g));
  return made;
}

/// How many of one kind are to be emulated. Errors: a fleet that cannot be.
Result<std::int32_t> gpus_of(const config::LoadedScenario& loaded, bool scales) {
  if (auto ok = config::check_tensor_parallel_only(loaded, "an emulated fleet"); !ok) {
    return std::unexpected(ok.error());
  }
  const auto& scenario = loaded.scenario;
  std::int32_t gpus = 0;
  if (scales && !scenario.nodes.empty()) {
    for (const Node& node : config::nodes_of(scenario)) gpus += node.gpus;
  } else {
    for (const auto& pool : scenario.pools) gpus += places(pool, scales) * pool.tensor_parallel;
  }
  const auto& gpu = loaded.gpus.front();
  for (const auto& other : loaded.gpus) {
    if (other.name != gpu.name) {
      return bad_input(scenario.file, "wattle up emulates one kind of GPU; this fleet has " + gpu.name + " and " +
                                          other.name + " (wattle sim runs it)");
    }
  }
  if (gpus > virtual_gpu::kMaxGpus) {
    return bad_input(scenario.file, fmt::format("wattle up emulates at most {} GPUs; this fleet has {} (wattle sim "
                                                "runs it)",
                                                virtual_gpu::kMaxGpus, gpus));
  }
  return gpus;
}

}  // namespace

EmulatedFleet::~EmulatedFleet() { end(); }

void EmulatedFleet::end() {
  while (!children_.empty()) {
    children_.back().stop(Span::s(5));
    children_.pop_back();
  }
}

const launch::Child* EmulatedFleet::dead() {
  for (auto& child : children_) {
    if (!child.running()) return &child;
  }
  return nullptr;
}

Result<nlohmann::json> EmulatedFleet::launch(const std::string& name, const std::vector<std::string>& arguments) {
  auto child = launch::Child::start(name, arguments, (folder_ / (name + ".log")).string());
  if (!child) return std::unexpected(child.error());
  children_.push_back(std::move(*child));
  const auto line = children_.back().first_line(Span::s(20));
  if (!line) return std::unexpected(line.error());
  auto json = nlohmann::json::parse(*line, nullptr, false);
  if (!json.is_object()) return external_failure(name, "said '" + *line + "' instead of where it listens");
  return json;
}

nlohmann::json EmulatedFleet::planned() {
  const auto answer = caller_->call(planner_url_, "GET", "/fleet");
  const auto fleet = answer ? nlohmann::json::parse(answer->body, nullptr, false) : nlohmann::json();
  return fleet.is_object() ? fleet.value("engines", nlohmann::json::array()) : nlohmann::json::array();
}

std::optional<EmulatedFleet::Booked> EmulatedFleet::booked() {
  const auto answer = caller_->call(admin_url_, "GET", "/usage");
  const auto usage = answer ? nlohmann::json::parse(answer->body, nullptr, false) : nlohmann::json();
  if (!usage.is_object() || !usage.contains("energy_j") || !usage["energy_j"]["total"].is_number()) return std::nullopt;
  return Booked{usage["energy_j"]["total"].get<double>(), usage.value("gpu_s", 0.0), usage.value("unmetered_s", 0.0)};
}

std::vector<std::vector<std::string>> EmulatedFleet::running() {
  std::vector<std::vector<std::string>> gpus;
  if (planner_url_.empty()) {
    for (const auto& engine : engines_) gpus.push_back(engine.gpus);
  } else {
    for (const auto& engine : planned()) gpus.push_back(engine.value("gpus", std::vector<std::string>{}));
  }
  return gpus;
}

bool EmulatedFleet::switching() {
  if (planner_url_.empty()) return false;
  return std::ranges::any_of(planned(), [](const auto& engine) { return engine.value("phase", "") != "serving"; });
}

Result<void> EmulatedFleet::check(const config::LoadedScenario& scenario, bool scales,
                                  const std::vector<std::uint16_t>& ports) {
  if (const auto gpus = gpus_of(scenario, scales); !gpus) return std::unexpected(gpus.error());
  for (const std::uint16_t port : ports) {
    net::LoopPool pool(1);
    net::ServerOptions there;
    there.port = port;
    const auto taken = net::HttpServer::listen(pool, there, [](const std::shared_ptr<net::Exchange>&) {});
    if (!taken) return std::unexpected(taken.error());
  }
  return {};
}

Result<void> EmulatedFleet::emulate_gpus(const FleetPlan& plan) {
  const auto gpus = gpus_of(plan.scenario, plan.scales);
  if (!gpus) return std::unexpected(gpus.error());
  const auto& scenario = plan.scenario.scenario;
  const auto& gpu = plan.scenario.gpus.front();
  // Children find the virtual GPUs through this variable, as they would find real ones through the driver.
  const auto board = fmt::format(
      "{},count={},name={},clock_min={},clock_max={},power_limit_w={:.0f},call_ms={},transition_ms={}",
      (folder_ / "gpus").string(), *gpus, gpu.name, gpu.clock_min.value(), gpu.clock_max.value(), gpu.tdp.value(),
      scenario.clock_delays.call.ns() / 1'000'000, scenario.clock_delays.transition.ns() / 1'000'000);
  setenv(virtual_gpu::kBoardVariable, board.c_str(), 1);
  return {};
}

/// Reserves slots for each shape that a node may hold; without [[node]]s, for each place.
Result<void> EmulatedFleet::place_engines(const FleetPlan& plan) {
  const auto& scenario = plan.scenario.scenario;
  if (plan.scales && !scenario.nodes.empty()) {
    std::vector<std::int32_t> first{0};
    for (const Node& node : config::nodes_of(scenario)) first.push_back(first.back() + node.gpus);
    for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
      const std::int32_t tp = scenario.pools[p].tensor_parallel;
      for (const NodeId node : config::nodes_for(scenario, p)) {
        const auto n = static_cast<std::size_t>(node.value());
        for (std::int32_t gpu = first[n]; gpu + tp <= first[n + 1]; gpu += tp) reserve(p, gpu, node, plan);
      }
    }
    return {};
  }
  std::int32_t next_gpu = 0;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    for (std::int32_t i = 0; i < places(pool, plan.scales); ++i, next_gpu += pool.tensor_parallel) {
      if (plan.scales) {
        reserve(p, next_gpu, NodeId(0), plan);
        continue;
      }
      FleetEngine made = engine_of(pool, next_gpu);
      if (auto started = start_engine(plan, pool, made); !started) return started;
      engines_.push_back(std::move(made));
    }
  }
  return {};
}

void EmulatedFleet::reserve(std::size_t pool, std::int32_t first_gpu, NodeId node, const FleetPlan& plan) {
  FleetEngine made = engine_of(plan.scenario.scenario.pools[pool], first_gpu);
  made.fpm = fmt::format("ipc://{}/fpm-{}", folder_.string(), engines_.size());
  slots_.insert(slots_.end(),
                {"--slot", fmt::format("{}={}@{},node={}", pool, fmt::join(made.gpus, ","), made.fpm, node.value())});
  engines_.push_back(std::move(made));
}

Result<void> EmulatedFleet::start_engine(const FleetPlan& plan, const config::PoolOptions& pool, FleetEngine& engine) {
  const auto& scenario = plan.scenario.scenario;
  const auto name = fmt::format("{}-{}", journal::name_of(pool.role), engines_.size());
  std::vector<std::string> mock{"mock-engine",
                                "--json",
                                "--gpu",
                                pool.gpu,
                                "--llm",
                                scenario.llm,
                                "--role",
                                std::string(journal::name_of(pool.role)),
                                "--tp",
                                std::to_string(pool.tensor_parallel),
                                "--gpus",
                                fmt::format("{}", fmt::join(engine.gpus, ",")),
                                "--id",
                                name,
                                "--link-bytes-per-s",
                                number(scenario.link.bandwidth_bytes_per_s),
                                "--link-latency-ms",
                                number(scenario.link.latency.millis()),
                                "--handoff-steps",
                                number(scenario.link.handoff_steps),
                                "--step-reports",
                                config::step_reports_of(scenario.measurement.telemetry)};
  const auto options = config::engine_arguments(config::engine_of(scenario, pool));
  mock.insert(mock.end(), options.begin(), options.end());
  const auto said = launch(name, mock);
  if (!said) return std::unexpected(said.error());
  engine.url = said->value("url", "");
  engine.fpm = said->value("fpm", "");
  return {};
}

Result<void> EmulatedFleet::start_control(const FleetPlan& plan) {
  const auto& scenario = plan.scenario.scenario;
  std::vector<std::string> fleet{"--recipe", plan.recipe, "--gpu", scenario.pools.front().gpu, "--llm", scenario.llm};
  const auto options = config::engine_arguments(scenario.engine);
  fleet.insert(fleet.end(), options.begin(), options.end());
  std::vector<std::string> agent{"agent",   "--json",
                                 "--nvml",  config::library_file(WATTLE_FAKE_NVML_LIBRARY),
                                 "--state", (folder_ / "agent-locks").string()};
  std::vector<std::string> gateway{"gateway",
                                   "--json",
                                   "--pd-contract",
                                   plan.contract,
                                   "--listen",
                                   fmt::format("127.0.0.1:{}", plan.port),
                                   "--admin",
                                   fmt::format("127.0.0.1:{}", plan.admin_port),
                                   "--model",
                                   scenario.llm,
                                   "--threads",
                                   "2",
                                   "--default-max-tokens",
                                   std::to_string(scenario.workload.max_output_tokens),
                                   "--seed",
                                   std::to_string(scenario.seed)};
  fleet.insert(fleet.end(), {"--scenario", plan.config});
  for (const auto& text : plan.set) fleet.insert(fleet.end(), {"--set", text});
  agent.insert(agent.end(), fleet.begin(), fleet.end());
  gateway.insert(gateway.end(), fleet.begin(), fleet.end());
  const auto objective = [](std::vector<std::string>& to, const char* flag, const std::optional<Span>& value) {
    if (value) to.insert(to.end(), {flag, number(value->millis())});
  };
  objective(agent, "--ttft-ms", scenario.slo.ttft);
  objective(agent, "--itl-ms", scenario.slo.itl);
  objective(agent, "--tbt-ms", scenario.slo.tbt);
  objective(agent, "--e2e-ms", scenario.slo.e2e);
  objective(gateway, "--ttft-slo-ms", scenario.slo.ttft);
  objective(gateway, "--itl-slo-ms", scenario.slo.itl);
  objective(gateway, "--tbt-slo-ms", scenario.slo.tbt);
  objective(gateway, "--e2e-slo-ms", scenario.slo.e2e);
  if (plan.scales) agent.emplace_back("--slots");
  for (const auto& engine : engines_) {
    agent.insert(agent.end(), {"--engine", fmt::format("{}={}@{}", engine.fpm, fmt::join(engine.gpus, ","),
                                                       journal::name_of(engine.role))});
    if (plan.scales) continue;  // the planner announces its engines to the gateway
    gateway.insert(
        gateway.end(),
        {"--worker", fmt::format("{}={},fpm={},tp={},bootstrap={}", engine.url, journal::name_of(engine.role),
                                 engine.fpm, engine.gpus.size(), engine.url.substr(engine.url.rfind(':') + 1))});
    if (!engine.site.empty()) gateway.back() += ",site=" + engine.site;
  }
  const auto agent_said = launch("agent", agent);
  if (!agent_said) return std::unexpected(agent_said.error());
  gateway.insert(gateway.end(), {"--agent", agent_said->value("admin", ""), "--name", scenario.name});
  if (!plan.journal.empty()) {
    gateway.insert(gateway.end(), {"--journal", std::filesystem::absolute(plan.journal).string()});
  }
  const auto gateway_said = launch("gateway", gateway);
  if (!gateway_said) return std::unexpected(gateway_said.error());
  gateway_url_ = gateway_said->value("url", "");
  admin_url_ = gateway_said->value("admin", "");
  return {};
}

Result<void> EmulatedFleet::start_planner(const FleetPlan& plan) {
  std::vector<std::string> planner{"planner",   plan.config, "--json", "--recipe",      plan.recipe,
                                   "--gateway", admin_url_,  "--logs", folder_.string()};
  planner.insert(planner.end(), slots_.begin(), slots_.end());
  for (const auto& text : plan.set) planner.insert(planner.end(), {"--set", text});
  const auto said = launch("planner", planner);
  if (!said) return std::unexpected(said.error());
  planner_url_ = said->value("admin", "");
  return {};
}

Result<void> EmulatedFleet::build(const FleetPlan& plan) {
  if (auto ok = emulate_gpus(plan); !ok) return ok;
  if (auto ok = place_engines(plan); !ok) return ok;
  if (auto ok = start_control(plan); !ok) return ok;
  if (plan.scales) {
    if (auto ok = start_planner(plan); !ok) return ok;
  }
  caller_ = std::make_unique<launch::AdminCaller>();  // a thread: not before the last child is started
  // 200 means that the gateway has a live engine of each role.
  const auto healthy = [this] {
    const auto answer = caller_->call(gateway_url_, "GET", "/health");
    return answer && answer->status == 200;
  };
  for (int tries = 0; !healthy() || !booked(); ++tries) {
    if (tries == 100) return external_failure("gateway", "found no live engine of each role, metered, within 10 s");
    usleep(100'000);
  }
  return {};
}

void FirstSwitch::look(EmulatedFleet& fleet) {
  if (over_) return;
  const bool switching = fleet.switching();
  over_ = begun_ && !switching;
  begun_ = begun_ || switching;
}

}  // namespace wattle::testbed
