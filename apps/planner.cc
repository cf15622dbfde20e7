// `wattle planner`: carries a recipe's scaling policy out with real processes. It starts and ends engines, and tells
// the gateway of them over its admin plane; requests never pass here.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <deque>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "admin_call.h"
#include "child.h"
#include "commands.h"
#include "compose.h"
#include "config/load.h"
#include "control/autoscaler.h"
#include "engine_flags.h"
#include "journal/names.h"
#include "live/clock.h"
#include "live/transport/server.h"
#include "locate.h"
#include "profiles.h"
#include "saturation.h"

namespace wattle::apps {
namespace {

std::atomic<bool> stop_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch it");
void on_signal(int) { stop_wanted = true; }

constexpr Span kTurn = Span::ms(100);       ///< between two looks at the engines
constexpr Span kStartLimit = Span::s(120);  ///< on top of spawn.load_s
constexpr std::size_t kRemembered = 1000;   ///< phase changes told at /fleet
constexpr std::size_t kUntold = 10'000;     ///< records kept for a gateway that does not answer

struct Flags {
  std::string scenario;
  std::string recipe;
  std::vector<std::string> set;
  std::string gateway;
  std::vector<std::string> slots;
  std::string admin = "127.0.0.1:0";
  std::string logs;
  bool json = false;
};

/// Where an engine of one [[fleet]] entry may run.
struct Slot {
  std::size_t pool = 0;
  std::vector<std::string> gpus;
  std::string fpm;  ///< where it publishes forward-pass metrics: agents know their engines by that
  bool taken = false;
};

/// POOL=GPU[,GPU...]@ENDPOINT
Result<Slot> parse_slot(const std::string& text, const config::Scenario& scenario) {
  const auto wrong = bad_input("--slot " + text, "is POOL=GPU[,GPU...]@ENDPOINT, as in 0=0,1@tcp://127.0.0.1:5557");
  Slot slot;
  const std::size_t equals = text.find('=');
  const std::size_t at = text.find('@');
  if (equals == std::string::npos || at == std::string::npos || at < equals) return wrong;
  const auto [end, code] = std::from_chars(text.data(), text.data() + equals, slot.pool);
  if (code != std::errc() || end != text.data() + equals) return wrong;
  if (slot.pool >= scenario.pools.size()) return bad_input("--slot " + text, "the scenario has no such [[fleet]]");
  for (std::size_t begin = equals + 1; begin <= at;) {
    const std::size_t comma = std::min(text.find(',', begin), at);
    if (comma == begin) return wrong;
    slot.gpus.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  const auto wanted = static_cast<std::size_t>(scenario.pools[slot.pool].tensor_parallel);
  if (slot.gpus.size() != wanted) {
    return bad_input("--slot " + text, fmt::format("names {} GPUs; that [[fleet]] takes {}", slot.gpus.size(), wanted));
  }
  slot.fpm = text.substr(at + 1);
  return slot;
}

/// One engine, from its start to its end.
struct Engine {
  std::size_t slot = 0;
  std::optional<Child> process;  ///< none: it could not be started
  std::string url;               ///< empty until it has said where it listens
  Instant started;
  Instant up_since = Instant::never();
  std::string worker;     ///< the gateway's id of it; empty: not told of it yet
  bool over = false;      ///< it has ended
  bool offered = false;   ///< it should have requests
  bool accepted = false;  ///< the gateway has been told so
};

class Planner final : public control::FleetPort, public journal::Sink {
 public:
  Planner(const config::LoadedScenario& loaded, Flags flags, std::vector<Slot> slots)
      : loaded_(loaded), flags_(std::move(flags)), slots_(std::move(slots)), begin_(live::steady_now()) {}

  Result<void> begin(const config::Recipe& recipe);
  /// One look at everything.
  void turn();
  void end();
  /// From any thread.
  [[nodiscard]] std::string fleet_json() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  InstanceId spawn(std::size_t shape, Instant now) override;
  void open(InstanceId instance, Instant) override { at(instance).offered = true; }
  void drain(InstanceId instance, Instant) override { at(instance).offered = false; }
  void stop(InstanceId instance, Instant) override;
  void decision(const journal::DecisionRecord& record) override;

 private:
  Engine& at(InstanceId id) { return engines_[static_cast<std::size_t>(id.value())]; }
  [[nodiscard]] Instant now() const { return Instant() + (live::steady_now() - begin_); }
  void look_at(const control::Autoscaler::Member& member);
  void announce(Engine& engine);
  void tell_gateway(InstanceId id);
  void withdraw(Engine& engine);
  void tell_journal();
  std::optional<nlohmann::json> worker_of(const Engine& engine);
  void count_arrivals();
  void tell();

  const config::LoadedScenario& loaded_;
  Flags flags_;
  std::vector<Slot> slots_;
  Instant begin_;
  AdminCaller caller_;
  std::vector<Engine> engines_;  ///< by instance id, past ones too
  std::unique_ptr<control::Autoscaler> scaler_;
  std::int64_t arrived_ = -1;  ///< what the gateway last said
  nlohmann::ordered_json phases_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json plan_;
  std::deque<journal::DecisionRecord> untold_;  ///< what the gateway's journal does not have yet, oldest first
  mutable std::mutex mutex_;                    ///< told_
  std::string told_ = "{}";
};

Result<void> Planner::begin(const config::Recipe& recipe) {
  const auto& scenario = loaded_.scenario;
  control::AutoscalerOptions options;
  options.period = options.retry = recipe.scaling.period;
  options.spawn_limit = scenario.spawn.load + scenario.spawn.warm + kStartLimit;
  for (const auto& pool : scenario.pools) {
    options.shapes.push_back({pool.tensor_parallel, pool.max_load_per_s, scenario.spawn.load + scenario.spawn.warm});
  }
  auto policy = make_scaling_policy(recipe, options.shapes);
  if (!policy) return std::unexpected(policy.error());
  if (!*policy) return bad_input("--recipe " + recipe.name, "does not scale; it needs a [scaling] policy");
  scaler_ = std::make_unique<control::Autoscaler>(std::move(*policy), recipe.scaling.mode, options, *this, *this);

  // Those the scenario begins with serve before anything is planned.
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    for (std::int32_t i = 0; i < scenario.pools[p].count; ++i) {
      const InstanceId id = spawn(p, now());
      Engine& engine = at(id);
      if (!engine.process) return external_failure("engine", "the first engines could not be started");
      const auto line = engine.process->first_line(Span::s(20));
      if (!line) return std::unexpected(line.error());
      engine.url = nlohmann::json::parse(*line, nullptr, false).value("url", "");
      engine.offered = true;
      const Instant limit = now() + Span::s(20);
      for (bool ready = false; !ready;) {
        tell_gateway(id);
        const auto worker = worker_of(engine);
        ready = worker && worker->value("status", "") == "ready";
        if (!ready && now() > limit) return external_failure(flags_.gateway, "does not take the first engine as ready");
        if (!ready) usleep(50'000);
      }
      scaler_->adopt(id, p, now());
      decision({now(), journal::DecisionKind::Phase, recipe.scaling.mode, RequestId{-1}, id,
                static_cast<std::int64_t>(journal::Phase::Serving), "the scenario begins with it"});
    }
  }
  tell();
  return {};
}

InstanceId Planner::spawn(std::size_t shape, Instant now) {
  const InstanceId id(static_cast<std::int32_t>(engines_.size()));
  Engine& engine = engines_.emplace_back();
  engine.started = now;
  const auto free = std::ranges::find_if(slots_, [&](const Slot& s) { return s.pool == shape && !s.taken; });
  if (free == slots_.end()) {
    spdlog::warn("no free slot for an engine of [[fleet]] {}", shape);
    return id;
  }
  free->taken = true;
  engine.slot = static_cast<std::size_t>(free - slots_.begin());
  const auto& pool = loaded_.scenario.pools[shape];
  const auto name = fmt::format("engine-{}", id.value());
  std::vector<std::string> words{"mock-engine", "--json",
                                 "--gpu",       pool.gpu,
                                 "--llm",       loaded_.scenario.llm,
                                 "--tp",        std::to_string(pool.tensor_parallel),
                                 "--gpus",      fmt::format("{}", fmt::join(free->gpus, ",")),
                                 "--fpm",       free->fpm,
                                 "--id",        name};
  const auto options = engine_arguments(config::engine_of(loaded_.scenario, pool));
  words.insert(words.end(), options.begin(), options.end());
  auto child = Child::start(name, words, (std::filesystem::path(flags_.logs) / (name + ".log")).string());
  if (child) {
    engine.process.emplace(std::move(*child));
  } else {
    spdlog::error("{}", child.error().message());
    free->taken = false;
    return id;
  }
  announce(engine);
  return id;
}

/// The gateway gives it its id before it answers, so that its journal has the engine from the start.
void Planner::announce(Engine& engine) {
  const auto& slot = slots_[engine.slot];
  const auto& pool = loaded_.scenario.pools[slot.pool];
  nlohmann::json body{{"url", nullptr}, {"tensor_parallel", pool.tensor_parallel}, {"step_reports", slot.fpm}};
  if (!engine.url.empty()) body["url"] = engine.url;
  const auto model = make_step_model(loaded_.gpus[slot.pool], loaded_.llm, pool.tensor_parallel,
                                     config::engine_of(loaded_.scenario, pool));
  if (model) body["kv_capacity_tokens"] = model->kv_blocks() * loaded_.scenario.engine.block_size;
  const auto answer = caller_.call(flags_.gateway, "POST", "/workers", body.dump());
  if (answer && answer->status / 100 == 2) {
    engine.worker = nlohmann::json::parse(answer->body, nullptr, false).value("id", "");
  } else {
    spdlog::warn("the gateway would not hear of an engine: {}", answer ? answer->body : answer.error().message());
  }
}

void Planner::stop(InstanceId instance, Instant) {
  Engine& engine = at(instance);
  withdraw(engine);
  if (engine.process) {
    engine.process->stop(Span::s(2));
    slots_[engine.slot].taken = false;
  }
  engine.process.reset();
}

/// Whatever the gateway does not know yet; what fails is tried again at the next turn.
void Planner::tell_gateway(InstanceId id) {
  Engine& engine = at(id);
  if (engine.offered == engine.accepted || (engine.url.empty() && engine.worker.empty())) return;
  if (engine.worker.empty()) {
    announce(engine);
    if (engine.worker.empty()) return;
  }
  const std::string place = "/workers/" + engine.worker;
  const auto answer = engine.offered
                          ? caller_.call(flags_.gateway, "PUT", place, nlohmann::json{{"url", engine.url}}.dump())
                          : caller_.call(flags_.gateway, "DELETE", place);
  if (answer && answer->status / 100 == 2) {
    engine.accepted = engine.offered;
  } else {
    spdlog::warn("the gateway would not hear of {}: {}", engine.url, answer ? answer->body : answer.error().message());
  }
}

/// It gets no requests any more, and may never have had any.
void Planner::withdraw(Engine& engine) {
  engine.offered = engine.accepted = false;
  engine.over = true;
  if (engine.worker.empty()) return;
  const auto answer = caller_.call(flags_.gateway, "DELETE", "/workers/" + engine.worker);
  if (!answer) spdlog::warn("the gateway was not told that {} is over: {}", engine.url, answer.error().message());
}

void Planner::tell_journal() {
  if (untold_.empty()) return;
  const Instant sent = now();  // one for all, or records of one instant would be out of order
  auto list = nlohmann::ordered_json::array();
  std::size_t taken = 0;
  for (const auto& r : untold_) {
    nlohmann::ordered_json told{{"kind", journal::name_of(r.kind)},
                                {"age_ms", (sent - r.at).millis()},
                                {"mode", journal::name_of(r.mode)},
                                {"reason", r.reason}};
    if (r.kind == journal::DecisionKind::Scaling) {
      told["gpus"] = r.value;
    } else {
      const Engine& engine = at(r.instance);
      if (engine.worker.empty() && !engine.over) break;  // it will have an id
      told["phase"] = journal::name_of(static_cast<journal::Phase>(r.value));
      told["worker"] = engine.worker;
    }
    ++taken;
    if (!told.contains("worker") || told["worker"] != "") list.push_back(told);
  }
  if (taken == 0) return;
  const auto answer =
      caller_.call(flags_.gateway, "POST", "/journal", nlohmann::ordered_json{{"records", list}}.dump());
  if (!answer) return;  // the next turn
  if (answer->status / 100 != 2) spdlog::warn("the gateway's journal refuses {} records: {}", taken, answer->body);
  untold_.erase(untold_.begin(), untold_.begin() + static_cast<std::ptrdiff_t>(taken));
}

std::optional<nlohmann::json> Planner::worker_of(const Engine& engine) {
  if (engine.worker.empty()) return std::nullopt;
  const auto answer = caller_.call(flags_.gateway, "GET", "/workers/" + engine.worker);
  if (!answer || answer->status != 200) return std::nullopt;
  auto json = nlohmann::json::parse(answer->body, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return json;
}

void Planner::look_at(const control::Autoscaler::Member& member) {
  using journal::Phase;
  Engine& engine = at(member.id);
  if (!engine.process || !engine.process->running()) {
    if (engine.process) slots_[engine.slot].taken = false;
    engine.process.reset();
    withdraw(engine);  // its health probes would find out, later
    scaler_->died(member.id, now());
    return;
  }
  tell_gateway(member.id);
  const auto& spawn = loaded_.scenario.spawn;
  if (member.phase == Phase::Spawning) {
    if (engine.url.empty()) {
      const auto line = engine.process->first_line(Span::ms(1));
      if (line) engine.url = nlohmann::json::parse(*line, nullptr, false).value("url", "");
    }
    // An emulated engine answers at once; a real one takes this long to load.
    if (!engine.url.empty() && now() >= engine.started + spawn.load) {
      engine.up_since = now();
      scaler_->up(member.id, now());
      tell_gateway(member.id);
    }
  } else if (member.phase == Phase::Warming) {
    const auto worker = worker_of(engine);
    const bool ready = worker && worker->value("status", "") == "ready";
    if (ready && now() >= engine.up_since + spawn.warm) scaler_->serving(member.id, now());
  } else if (member.phase == Phase::Draining && !engine.accepted) {
    const auto worker = worker_of(engine);
    if (worker && worker->value("active_requests", -1) == 0) scaler_->drained(member.id, now());
  }
}

void Planner::count_arrivals() {
  const auto answer = caller_.call(flags_.gateway, "GET", "/metrics");
  if (!answer || answer->status != 200) return;
  constexpr std::string_view kName = "\nwattle_gateway_requests_arrived_total ";
  const std::size_t place = answer->body.find(kName);
  if (place == std::string::npos) return;
  const char* first = answer->body.data() + place + kName.size();
  std::int64_t total = 0;
  std::from_chars(first, answer->body.data() + answer->body.size(), total);
  // A gateway that has started anew counts from 0.
  if (arrived_ >= 0) scaler_->arrived(total >= arrived_ ? total - arrived_ : total);
  arrived_ = total;
}

void Planner::turn() {
  const auto members = scaler_->members();  // a copy: they change as they are looked at
  for (const auto& member : members) {
    const auto& still = scaler_->members();
    const auto found = std::ranges::find(still, member.id, &control::Autoscaler::Member::id);
    if (found != still.end()) look_at(control::Autoscaler::Member(*found));
  }
  if (now() >= scaler_->next_tick()) {
    count_arrivals();
    scaler_->tick(now());
  }
  for (const auto& member : scaler_->members()) tell_gateway(member.id);
  tell_journal();
  tell();
}

void Planner::end() {
  tell_journal();
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (engines_[i].process) stop(InstanceId(static_cast<std::int32_t>(i)), now());
  }
}

void Planner::decision(const journal::DecisionRecord& record) {
  if (untold_.size() == kUntold) untold_.pop_front();
  untold_.push_back(record);
  if (record.kind == journal::DecisionKind::Scaling) {
    plan_ = {{"at_s", record.at.seconds()}, {"gpus", record.value}, {"reason", record.reason}};
    return;
  }
  const auto phase = journal::name_of(static_cast<journal::Phase>(record.value));
  const auto& engine = at(record.instance);
  phases_.push_back({{"at_s", record.at.seconds()},
                     {"engine", record.instance.value()},
                     {"fleet", slots_[engine.slot].pool},
                     {"phase", phase},
                     {"reason", record.reason}});
  if (phases_.size() > kRemembered) phases_.erase(phases_.begin());
  spdlog::info("engine {} is {}: {}", record.instance.value(), phase, record.reason);
}

void Planner::tell() {
  nlohmann::ordered_json all{{"plan", plan_}, {"engines", nlohmann::ordered_json::array()}};
  for (const auto& member : scaler_->members()) {
    const auto& engine = at(member.id);
    const auto& slot = slots_[engine.slot];
    all["engines"].push_back({{"engine", member.id.value()},
                              {"fleet", slot.pool},
                              {"phase", journal::name_of(member.phase)},
                              {"url", engine.url},
                              {"worker", engine.worker},
                              {"pid", engine.process ? engine.process->pid() : -1},
                              {"gpus", slot.gpus}});
  }
  all["phases"] = phases_;
  const std::lock_guard lock(mutex_);
  told_ = all.dump();
}

Result<int> run(const Flags& flags) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("planner"));  // stdout is for results
  const auto set = config::parse_overrides(flags.set);
  if (!set) return std::unexpected(set.error());
  const auto overrides = config::split_overrides(*set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto stated = config::load_scenario(flags.scenario, overrides->scenario, project());
  if (!stated) return std::unexpected(stated.error());
  const auto recipe = config::load_recipe(flags.recipe, overrides->recipe, project());
  if (!recipe) return std::unexpected(recipe.error());
  const auto loaded = with_loads(*stated, true, data_dir());
  if (!loaded) return std::unexpected(loaded.error());
  std::vector<Slot> slots;
  for (const auto& text : flags.slots) {
    auto slot = parse_slot(text, loaded->scenario);
    if (!slot) return std::unexpected(slot.error());
    slots.push_back(std::move(*slot));
  }
  const auto address = live::parse_host_port(flags.admin, "--admin");
  if (!address) return std::unexpected(address.error());

  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  Planner planner(*loaded, flags, std::move(slots));
  if (auto begun = planner.begin(recipe->recipe); !begun) {
    planner.end();
    return std::unexpected(begun.error());
  }
  live::LoopPool pool(1);
  live::ServerOptions where;
  where.host = address->host;
  where.port = address->port;
  auto server = live::HttpServer::listen(pool, where, [&planner](std::shared_ptr<live::Exchange> e) {
    if (e->path() == "/fleet") {
      e->respond(200, "application/json", planner.fleet_json());
    } else {
      e->respond(404, "text/plain", "GET /fleet\n");
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

void add_planner(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("planner", "Start and end engines by a recipe's scaling policy");
  auto flags = std::make_shared<Flags>();
  flags->logs = std::filesystem::temp_directory_path().string();
  command->add_option("scenario", flags->scenario, "Whose [[fleet]] entries are the engines there may be")->required();
  command->add_option("--recipe", flags->recipe, "With a [scaling] policy")->required();
  command->add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  command->add_option("--gateway", flags->gateway, "URL of the gateway's admin plane")->required();
  command
      ->add_option("--slot", flags->slots,
                   "POOL=GPU[,GPU...]@ENDPOINT: where an engine of the POOL-th [[fleet]] (from 0) may run, and publish "
                   "forward-pass metrics; repeatable")
      ->required();
  command->add_option("--admin", flags->admin, "host:port of /fleet; port 0 takes any free one")->capture_default_str();
  command->add_option("--logs", flags->logs, "Folder for what engines write on stderr")->capture_default_str();
  command->add_flag("--json", flags->json, "Print where it listens as one JSON object");
  command->callback([flags, &exit_code] {
    const auto done = run(*flags);
    exit_code = done ? *done : fail(done.error());
  });
}

}  // namespace wattle::apps
