// `wattle planner`: carries a recipe's scaling policy out with real processes. It starts and ends engines, and tells
// the gateway of them over its admin plane; requests never pass here.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "config/load.h"
#include "config/locate.h"
#include "experiment/saturation.h"
#include "net/server.h"
#include "planner/planned_fleet.h"
#include "systems/recipe.h"

namespace wattle::apps {
namespace {

std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch it");
void on_signal(int) { stop_wanted = true; }

constexpr Span kTurn = Span::ms(100);  ///< between two looks at the engines

struct Flags {
  std::string scenario;
  std::string recipe;
  std::vector<std::string> set;
  std::string gateway;
  std::vector<std::string> slots;
  std::string admin = "127.0.0.1:0";
  std::string logs;
  std::string state;
  bool json = false;
};

Result<int> run(const Flags& flags) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("planner"));  // stdout is for results
  const auto set = config::parse_overrides(flags.set);
  if (!set) return std::unexpected(set.error());
  const auto overrides = systems::split_overrides(*set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto stated = config::load_scenario(flags.scenario, overrides->scenario, config::project());
  if (!stated) return std::unexpected(stated.error());
  const auto recipe = systems::load_recipe(flags.recipe, overrides->recipe, config::project());
  if (!recipe) return std::unexpected(recipe.error());
  const auto loaded = experiment::with_loads(*stated, true, config::data_dir());
  if (!loaded) return std::unexpected(loaded.error());
  std::vector<planner::EngineSlot> slots;
  for (const auto& text : flags.slots) {
    auto slot = planner::parse_slot(text, loaded->scenario);
    if (!slot) return std::unexpected(slot.error());
    slots.push_back(std::move(*slot));
  }
  const auto address = net::parse_host_port(flags.admin, "--admin");
  if (!address) return std::unexpected(address.error());

  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  planner::PlannedFleet planner(*loaded, std::move(slots), flags.gateway, flags.logs, flags.state);
  if (auto begun = planner.begin(recipe->recipe); !begun) {
    planner.end();
    return std::unexpected(begun.error());
  }
  net::LoopPool pool(1);
  net::ServerOptions where;
  where.host = address->host;
  where.port = address->port;
  auto server = net::HttpServer::listen(pool, where, [&planner](std::shared_ptr<net::Exchange> e) {
    if (e->path() == "/fleet") {
      e->respond(200, "application/json", planner.fleet_json());
    } else if (e->path() == "/plan" && e->method() == "POST") {
      const auto taken = planner.give(std::string(e->body()));
      const nlohmann::ordered_json said{{"status", taken ? "accepted" : taken.error().message()}};
      e->respond(taken ? 202 : 400, "application/json", said.dump());
    } else {
      e->respond(404, "text/plain", "GET /fleet, POST /plan\n");
    }
  });
  if (!server) {
    planner.end();
    return std::unexpected(server.error());
  }
  const std::string url = fmt::format("http://{}:{}", address->host, (*server)->port());
  if (flags.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"admin", url}}.dump());
  } else {
    fmt::print("planner for {}, recipe {}, fleet on {}/fleet\n", flags.gateway, flags.recipe, url);
  }
  std::fflush(stdout);
  while (!stop_wanted) {
    planner.turn();
    usleep(static_cast<useconds_t>(kTurn.ns() / 1000));
  }
  (*server)->stop(Span::ms(100));
  pool.stop();
  planner.end();
  return 0;
}

}  // namespace

void add_planner(Command app, int& exit_code) {
  Command command = app.add_subcommand("planner", "Start and end engines by a recipe's scaling policy");
  auto flags = std::make_shared<Flags>();
  flags->logs = std::filesystem::temp_directory_path().string();
  command.add_option("scenario", flags->scenario, "Whose [[fleet]] entries are the engines there may be").required();
  command.add_option("--recipe", flags->recipe, "Without a [scaling] policy, plans come by POST /plan").required();
  command.add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  command.add_option("--gateway", flags->gateway, "URL of the gateway's admin plane").required();
  command
      .add_option("--slot", flags->slots,
                  "POOL=GPU[,GPU...]@ENDPOINT: where an engine of the POOL-th [[fleet]] (from 0) may run, and publish "
                  "forward-pass metrics; repeatable")
      .required();
  command.add_option("--admin", flags->admin, "host:port of /fleet and /plan; port 0 takes any free one")
      .capture_default_str();
  command.add_option("--logs", flags->logs, "Folder for what engines write on stderr").capture_default_str();
  command.add_option(
      "--state", flags->state,
      "Folder in which the next planner finds the engines that this one leaves if it dies; without one they "
      "end with it");
  command.add_flag("--json", flags->json, "Print where it listens as one JSON object");
  command.callback([flags, &exit_code] {
    const auto done = run(*flags);
    exit_code = done ? *done : fail(done.error());
  });
}

}  // namespace wattle::apps
