#include "planner/planned_fleet.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "config/engine_arguments.h"
#include "config/make_step_model.h"
#include "config/nodes.h"
#include "journal/names.h"
#include "net/clock.h"
#include "systems/compose.h"

namespace wattle::planner {
namespace {

constexpr Span kStartLimit = Span::s(120);   ///< on top of spawn.load_s
constexpr std::size_t kRemembered = 1000;    ///< phase changes shown at /fleet
constexpr std::size_t kMostUnsent = 10'000;  ///< records kept for a gateway that does not answer

}  // namespace

Result<EngineSlot> parse_slot(const std::string& text, const config::Scenario& scenario) {
  const auto wrong = bad_input("--slot " + text, "is POOL=GPU[,GPU...]@ENDPOINT, as in 0=0,1@tcp://127.0.0.1:5557");
  EngineSlot slot;
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

PlannedFleet::PlannedFleet(const config::LoadedScenario& loaded, std::vector<EngineSlot> slots,
                           const std::string& gateway, std::string logs, std::string state)
    : loaded_(loaded),
      slots_(std::move(slots)),
      gateway_(gateway),
      logs_(std::move(logs)),
      state_(std::move(state)),
      begin_(net::steady_now()) {}

Instant PlannedFleet::now() const { return Instant() + (net::steady_now() - begin_); }

Result<void> PlannedFleet::begin(const systems::Recipe& recipe) {
  const auto& scenario = loaded_.scenario;
  control::PlanExecutorOptions options;
  options.period = options.retry = recipe.scaling_period;
  options.spawn_limit = scenario.spawn.load + scenario.spawn.warm + kStartLimit;
  for (const auto& pool : scenario.pools) {
    options.shapes.push_back({pool.tensor_parallel, pool.max_load_per_s, scenario.spawn.load + scenario.spawn.warm});
  }
  auto policy = systems::make_scaling_policy(recipe, options.shapes);
  if (!policy) return std::unexpected(policy.error());
  if (!*policy) *policy = given_;
  options.reshard = config::reshard_problem(loaded_);
  options.reshard.gpu_bytes = 0;  // virtual GPUs hold no weights
  options.at_once = recipe.scaling_at_once;
  const Mode mode = *policy == given_ ? Mode::Enforce : recipe.scaling.mode;
  scaler_ = std::make_unique<control::PlanExecutor>(std::move(*policy), mode, options, *this, *this);
  if (!state_.empty()) adopt_left(mode);
  if (scaler_->members().empty()) {
    if (auto begun = begin_first(mode); !begun) return begun;
  }
  tell();
  return {};
}

/// Those the scenario begins with serve before anything is planned.
Result<void> PlannedFleet::begin_first(Mode mode) {
  const auto& scenario = loaded_.scenario;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    for (std::int32_t i = 0; i < scenario.pools[p].count; ++i) {
      const InstanceId id = start({.shape = p, .load = Span()});
      Engine& engine = at(id);
      if (!engine.process) return external_failure("engine", "the first engines could not be started");
      const auto line = engine.process->first_line(Span::s(20));
      if (!line) return std::unexpected(line.error());
      engine.url = nlohmann::json::parse(*line, nullptr, false).value("url", "");
      engine.offered = true;
      const Instant limit = now() + Span::s(20);
      for (bool ready = false; !ready;) {
        tell_gateway(id);
        ready = look(engine).status == "ready";
        if (!ready && now() > limit) return external_failure("gateway", "does not take the first engine as ready");
        if (!ready) usleep(50'000);
      }
      scaler_->adopt(id, p, now());
      decision({now(), journal::DecisionKind::Phase, mode, RequestId{-1}, id,
                static_cast<std::int64_t>(journal::Phase::Serving), "the scenario begins with it"});
    }
  }
  return {};
}

InstanceId PlannedFleet::spawn(const control::StartOrder& order, Instant) { return start(order); }

/// One of the shape on GPUs that no engine has, but for those whose weights it takes over.
std::optional<std::size_t> PlannedFleet::slot_for(const control::StartOrder& order) const {
  const auto meet = [](const EngineSlot& a, const EngineSlot& b) {
    return std::ranges::find_first_of(a.gpus, b.gpus) != a.gpus.end();
  };
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    const EngineSlot& slot = slots_[s];
    if (slot.pool != order.shape || slot.taken) continue;
    bool meets_other = false;
    bool meets_from = order.from.empty();
    for (const auto& [id, engine] : engines_) {
      if (!engine.process || !meet(slot, slots_[engine.slot])) continue;
      const bool lends = std::ranges::find(order.from, InstanceId(id)) != order.from.end();
      (lends ? meets_from : meets_other) = true;
    }
    if (!meets_other && meets_from) return s;
  }
  return std::nullopt;
}

InstanceId PlannedFleet::start(const control::StartOrder& order) {
  const std::size_t shape = order.shape;
  const Span load = order.load.value_or(loaded_.scenario.spawn.load);
  const InstanceId id(next_++);
  const auto place = slot_for(order);
  Engine& engine = engines_[id.value()];
  engine.warms = !order.load.has_value();
  if (!place) {
    spdlog::warn("no free slot for an engine of [[fleet]] {}", shape);
    return id;
  }
  EngineSlot* const free = &slots_[*place];
  free->taken = true;
  engine.slot = *place;
  const auto& pool = loaded_.scenario.pools[shape];
  const auto name = fmt::format("engine-{}", id.value());
  std::vector<std::string> words{"mock-engine", "--json",
                                 "--gpu",       pool.gpu,
                                 "--llm",       loaded_.scenario.llm,
                                 "--tp",        std::to_string(pool.tensor_parallel),
                                 "--gpus",      fmt::format("{}", fmt::join(free->gpus, ",")),
                                 "--fpm",       free->fpm,
                                 "--id",        name,
                                 "--load-s",    fmt::format("{}", load.seconds())};
  const auto options = config::engine_arguments(config::engine_of(loaded_.scenario, pool));
  words.insert(words.end(), options.begin(), options.end());
  const auto log = (std::filesystem::path(logs_) / (name + ".log")).string();
  const auto trace = state_.empty() ? std::nullopt : std::optional(trace_of(name));
  auto child = launch::Child::start(name, words, log, trace);
  if (child) {
    engine.process.emplace(std::move(*child));
  } else {
    spdlog::error("{}", child.error().message());
    free->taken = false;
    return id;
  }
  announce(engine);
  note(id.value(), engine);
  return id;
}

/// The gateway gives it its id before it answers, so that its journal has the engine from the start.
void PlannedFleet::announce(Engine& engine) {
  const auto& slot = slots_[engine.slot];
  const auto& pool = loaded_.scenario.pools[slot.pool];
  nlohmann::json body{{"url", nullptr}, {"tensor_parallel", pool.tensor_parallel}, {"step_reports", slot.fpm}};
  if (!engine.url.empty()) body["url"] = engine.url;
  if (!pool.site.empty()) body["site"] = pool.site;
  const auto model = config::make_step_model(loaded_.gpus[slot.pool], loaded_.llm, pool.tensor_parallel,
                                             config::engine_of(loaded_.scenario, pool));
  if (model) body["kv_capacity_tokens"] = model->kv_blocks() * loaded_.scenario.engine.block_size;
  engine.worker = gateway_.add_worker(body);
}

/// Called for one that has come up, which takes requests when it is warm, or called back from draining.
void PlannedFleet::open(InstanceId instance, Instant) {
  const auto& members = scaler_->members();
  const auto member = std::ranges::find(members, instance, &control::PlanExecutor::Member::id);
  if (member != members.end() && member->phase != journal::Phase::Warming) at(instance).offered = true;
}

void PlannedFleet::stop(InstanceId instance, Instant) {
  Engine& engine = at(instance);
  withdraw(engine);
  if (engine.process) {
    engine.process->stop(Span::s(2));
    slots_[engine.slot].taken = false;
  }
  engine.process.reset();
}

/// Whatever the gateway does not know yet; what fails is tried again at the next turn.
void PlannedFleet::tell_gateway(InstanceId id) {
  Engine& engine = at(id);
  if (engine.offered == engine.accepted || (engine.url.empty() && engine.worker.empty())) return;
  if (engine.worker.empty()) {
    announce(engine);
    if (engine.worker.empty()) return;
  }
  const auto answer = engine.offered ? gateway_.offer(engine.worker, engine.url) : gateway_.withdraw(engine.worker);
  if (answer == GatewayAdmin::Answer::Done) engine.accepted = engine.offered;
  engine.served = engine.served || engine.accepted;
  if (answer == GatewayAdmin::Answer::Unknown) engine.forget_gateway();
}

/// It gets no requests any more, and may never have had any.
void PlannedFleet::withdraw(Engine& engine) {
  engine.offered = engine.accepted = false;
  engine.over = true;
  if (engine.worker.empty()) return;
  gateway_.withdraw(engine.worker);
}

void PlannedFleet::tell_journal() {
  if (unsent_.empty()) return;
  const Instant sent = now();  // one for all, or records of one instant would be out of order
  auto list = nlohmann::ordered_json::array();
  std::size_t taken = 0;
  for (const auto& r : unsent_) {
    nlohmann::ordered_json record{{"kind", journal::name_of(r.kind)},
                                  {"age_ms", (sent - r.at).millis()},
                                  {"mode", journal::name_of(r.mode)},
                                  {"reason", r.reason}};
    if (r.kind == journal::DecisionKind::Scaling) {
      record["gpus"] = r.value;
    } else {
      const Engine& engine = at(r.instance);
      if (engine.worker.empty() && !engine.over) break;  // it will have an id
      record["phase"] = journal::name_of(static_cast<journal::Phase>(r.value));
      record["worker"] = engine.worker;
    }
    ++taken;
    if (!record.contains("worker") || record["worker"] != "") list.push_back(record);
  }
  if (taken == 0) return;
  if (!list.empty() && gateway_.record(list) == GatewayAdmin::Answer::Failed) return;  // the next turn
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(taken));
}

/// A gateway that has restarted knows no engine of ours: they are announced again.
GatewayAdmin::Seen PlannedFleet::look(Engine& engine) {
  if (engine.worker.empty()) return {};
  auto seen = gateway_.look(engine.worker);
  if (seen.answer == GatewayAdmin::Answer::Unknown) engine.forget_gateway();
  return seen;
}

void PlannedFleet::forget_past() {
  if (!unsent_.empty()) return;  // the journal still asks who they were
  std::erase_if(engines_, [](const auto& entry) { return entry.second.over && !entry.second.process; });
}

/// Has it loaded? It says where it listens before that, and answers 503 until then.
bool PlannedFleet::answers(Engine& engine) {
  if (engine.url.empty()) {
    const auto line = engine.process->first_line(Span::ms(1));
    if (line) engine.url = nlohmann::json::parse(*line, nullptr, false).value("url", "");
  }
  if (engine.url.empty()) return false;
  const auto health = engine_.call(engine.url, "GET", "/health");
  return health && health->status == 200;
}

void PlannedFleet::look_at(const control::PlanExecutor::Member& member) {
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
    if (answers(engine)) {
      engine.up_since = now();
      scaler_->up(member.id, now());
    }
  } else if (member.phase == Phase::Warming) {
    // Requests come to it from now on, and not before; the gateway finds out for itself that it is healthy.
    if (!engine.warms || now() >= engine.up_since + spawn.warm) engine.offered = true;
    tell_gateway(member.id);
    if (engine.offered && look(engine).status == "ready") scaler_->serving(member.id, now());
  } else if (member.phase == Phase::Draining && !engine.accepted) {
    const auto seen = look(engine);
    // A gateway that does not know it has sent it nothing that still runs through it.
    if (engine.worker.empty() || seen.active_requests == 0) scaler_->drained(member.id, now());
  }
}

void PlannedFleet::count_arrivals() {
  const auto arrived = gateway_.arrived();
  if (!arrived) return;
  const std::int64_t total = *arrived;
  // A gateway that has restarted counts from 0.
  if (arrived_ >= 0) scaler_->arrived({}, total >= arrived_ ? total - arrived_ : total);
  arrived_ = total;
}

void PlannedFleet::turn() {
  const auto members = scaler_->members();  // a copy: they change as they are looked at
  for (const auto& member : members) {
    const auto& still = scaler_->members();
    const auto found = std::ranges::find(still, member.id, &control::PlanExecutor::Member::id);
    if (found != still.end()) look_at(control::PlanExecutor::Member(*found));
  }
  if (now() >= scaler_->next_tick() || given_->fresh()) {
    count_arrivals();
    for (const auto& member : members) {
      const auto found = engines_.find(member.id.value());
      if (found != engines_.end() && found->second.accepted) look(found->second);
    }
    scaler_->tick(now());
  }
  for (const auto& member : scaler_->members()) tell_gateway(member.id);
  for (auto& [id, engine] : engines_) note(id, engine);
  tell_journal();
  forget_past();
  tell();
}

void PlannedFleet::end() {
  tell_journal();
  for (auto& [id, engine] : engines_) {
    if (engine.process) stop(InstanceId(id), now());
  }
}

void PlannedFleet::decision(const journal::DecisionRecord& record) {
  if (record.kind == journal::DecisionKind::Step) {
    const auto kind = journal::name_of(static_cast<StepKind>(record.value));
    spdlog::info("{} about engine {}: {}", kind, record.instance.value(), record.reason);
    steps_.push_back({{"at_s", record.at.seconds()},
                      {"kind", kind},
                      {"engine", record.instance.value()},
                      {"reason", record.reason}});
    if (steps_.size() > kRemembered) steps_.erase(steps_.begin());
    return;
  }
  if (unsent_.size() == kMostUnsent) unsent_.pop_front();
  unsent_.push_back(record);
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

void PlannedFleet::tell() {
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
  all["steps"] = steps_;
  const std::lock_guard lock(mutex_);
  shown_ = all.dump();
}

}  // namespace wattle::planner
