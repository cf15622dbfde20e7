// Engines outlive the planner that started them: what it leaves for its successor, and how that takes over.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/file.h"
#include "net/log.h"
#include "planner/planned_fleet.h"

namespace wattle::planner {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPlanFile = "plan.json";
constexpr int kLockPatience_s = 2;  ///< with a planner that is ending

/// `said`: a failure has been logged, and is not again until a write succeeds.
bool write_whole(const fs::path& file, const std::string& text, bool& said) {
  const auto written = replace_file(file.string(), text);
  if (!written && !said) {
    net::log_line(net::LogLevel::Error, "what the next planner is to find was not written",
                  {{"error", written.error().message()}});
  }
  said = !written;
  return written.has_value();
}

/// What a note says of a key; of another type than ours, it was written by another version: warned of and left out.
template <typename T>
T noted_as(const nlohmann::json& note, const char* key, T otherwise, const std::string& file) {
  const auto found = note.is_object() ? note.find(key) : note.end();
  if (found == note.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::int32_t>) {
    if (found->is_number_integer() && *found >= std::numeric_limits<T>::min() &&
        *found <= std::numeric_limits<T>::max())
      return found->template get<T>();
  } else if (found->type() == nlohmann::json(otherwise).type() || (found->is_number() && std::is_same_v<T, double>)) {
    return found->template get<T>();
  }
  net::log_line(net::LogLevel::Warning, "an engine's note says something that it cannot be; it is left out",
                {{"file", file}, {"key", key}, {"value", found->dump()}});
  return otherwise;
}

}  // namespace

/// Its folders are made; of one --state there is one planner at a time: two would end each other's engines.
Result<void> PlannedFleet::take_folders() {
  for (const auto& [flag, folder] : {std::pair("--logs ", &options_.logs), std::pair("--state ", &options_.state)}) {
    std::error_code failed;
    if (!folder->empty() && !fs::is_directory(*folder, failed)) fs::create_directories(*folder, failed);
    if (failed) return external_failure(flag + *folder, "cannot be made a folder: " + failed.message());
  }
  if (options_.state.empty()) return {};
  auto lock = FileLock::take((fs::path(options_.state) / "lock").string(),
                             "another planner has the engines of this --state", kLockPatience_s);
  if (!lock) return std::unexpected(lock.error());
  lock_ = std::move(*lock);
  return {};
}

launch::Child::Trace PlannedFleet::trace_of(const std::string& name) const {
  const fs::path folder(options_.state);
  return {(folder / (name + ".pid")).string(), (folder / (name + ".out")).string()};
}

/// What cannot be seen from outside: which slot it is on, what the gateway calls it, and whether it was to have
/// requests. The process itself wrote who it is before it began.
void PlannedFleet::note(std::int32_t id, Engine& engine) {
  if (options_.state.empty()) return;
  const fs::path file = fs::path(options_.state) / fmt::format("engine-{}.json", id);
  if (engine.over) {
    std::error_code ignored;
    const auto trace = trace_of(fmt::format("engine-{}", id));
    for (const fs::path& left : {file, fs::path(trace.pid_file), fs::path(trace.output_file)}) {
      fs::remove(left, ignored);
    }
    return;
  }
  if (!engine.process) return;
  const nlohmann::ordered_json said{{"endpoint", slots_[engine.slot].fpm},
                                    {"worker", engine.worker},
                                    {"pool", engine.pool.value()},
                                    {"weight", engine.weight},
                                    {"decode", engine.decode.value()},
                                    {"offered", engine.offered},
                                    {"warms", engine.warms},
                                    {"draining", !engine.offered && engine.served}};
  std::string text = said.dump();
  if (text == engine.noted) return;
  // Without a note the next planner would end the engine: a full disk is tried again at the next step.
  if (write_whole(file, text, engine.note_failed)) engine.noted = std::move(text);
}

/// One whose process still runs, as the executor is to see it. `without_slot`: gets it if nobody can use it.
std::optional<control::PlanExecutor::Member> PlannedFleet::adopt(std::int32_t id, Engines& without_slot) {
  const auto name = fmt::format("engine-{}", id);
  const auto log = (fs::path(options_.logs) / (name + ".log")).string();
  auto process = launch::Child::adopt(name, {"mock-engine", "--id", name}, log, trace_of(name));
  const auto file = (fs::path(options_.state) / (name + ".json")).string();
  const auto text = read_file(file);
  const auto note_of = nlohmann::json::parse(text ? *text : "", nullptr, false);
  const auto noted = [&](const char* key, auto otherwise) { return noted_as(note_of, key, otherwise, file); };
  const auto endpoint = noted("endpoint", std::string());
  const auto slot = std::ranges::find(slots_, endpoint, &EngineSlot::fpm);
  const bool placed = process && slot != slots_.end();
  Engine& engine = (placed || !process ? engines_ : without_slot)[id];
  if (!process) {
    engine.over = true;
    note(id, engine);
    engines_.erase(id);
    return std::nullopt;
  }
  engine.process.emplace(std::move(*process));
  engine.worker = noted("worker", std::string());
  if (!placed) {  // its planner died between the start and the note, or a slot is gone from the command line
    net::log_line(net::LogLevel::Warning, "an engine runs on no slot of ours: it ends when it is empty",
                  {{"engine", name}});
    (void)answers(engine);  // for its address, by which the gateway's worker is known to be this one
    return std::nullopt;
  }
  engine.slot = static_cast<std::size_t>(slot - slots_.begin());
  engine.pool = PoolId(noted("pool", home_[slot->pool].value()));
  engine.weight = noted("weight", 0.0);
  engine.decode = InstanceId(noted("decode", kNoInstance.value()));
  engine.warms = noted("warms", true);
  engine.offered = noted("offered", false);
  engine.served = engine.offered || noted("draining", false);
  engine.up_since = now();
  const std::string differs = outdated(engine);
  if (!differs.empty()) {
    net::log_line(net::LogLevel::Warning, "an engine is not as it would be started now: it is replaced",
                  {{"engine", name}, {"differs", differs}});
  }
  const bool healthy = answers(engine);
  const auto seen = look(engine);  // forgets the gateway's name of it if that has restarted
  engine.accepted = seen.answer == GatewayAdmin::Answer::Done && seen.status == "ready";
  control::PlanExecutor::Member member{InstanceId(id), slot->pool, Phase::Spawning, now(),
                                       engine.pool,    slot->node, slot->places};
  member.outdated = !differs.empty();
  if (engine.offered && (engine.accepted || (member.outdated && !engine.worker.empty()))) member.phase = Phase::Serving;
  if (!engine.offered && engine.served) member.phase = Phase::Draining;
  if (member.outdated && member.phase == Phase::Spawning) {  // it does not come up any more
    member.phase = Phase::Draining;
    engine.served = true;
    engine.accepted = !engine.worker.empty();  // for all that is known
  }
  // It was to serve, and the gateway has forgotten it: it comes up again where it stands.
  if (engine.offered && !engine.accepted && healthy) engine.warms = false;
  if (member.phase == Phase::Spawning || member.phase == Phase::Draining) engine.offered = false;
  return member;
}

/// In what it differs from an engine that would be started on its slot now, for people; empty: in nothing. Of a pool
/// that does not exist it is put into its slot's.
std::string PlannedFleet::outdated(Engine& engine) {
  const EngineSlot& slot = slots_[engine.slot];
  std::string all =
      differences(engine.process->arguments(), engine_command(loaded_, slot, engine.process->name(), Span()));
  if (has_pool(engine.pool, loaded_.scenario.serving_pools.size())) return all;
  all += fmt::format("{}pool {} does not exist", all.empty() ? "" : ", ", engine.pool.value());
  engine.pool = home_[slot.pool];
  return all;
}

/// A policy that wants what was found first is asked before any of it ends.
void PlannedFleet::replace_outdated() {
  if (std::ranges::any_of(scaler_->members(), &control::PlanExecutor::Member::outdated)) scaler_->tick(now());
}

Result<Plan> PlannedFleet::read_given(const std::string& json) const {
  return given_plan_from_json(json, home_.size(), loaded_.scenario.serving_pools.size());
}

Result<void> PlannedFleet::give(const std::string& json) {
  auto plan = read_given(json);
  if (!plan) return std::unexpected(plan.error());
  bool said = false;
  if (!options_.state.empty()) write_whole(fs::path(options_.state) / kPlanFile, json, said);
  given_->give(std::move(*plan));
  return {};
}

void PlannedFleet::adopt_left(Mode mode) {
  const std::string plan_file = (fs::path(options_.state) / kPlanFile).string();
  if (const auto text = read_file(plan_file)) {
    auto plan = read_given(*text);
    if (plan) {
      given_->give(std::move(*plan));
    } else {
      net::log_line(net::LogLevel::Warning, "the plan that a planner left cannot be read; it is left out",
                    {{"file", plan_file}, {"error", plan.error().message()}});
    }
  }
  std::vector<std::int32_t> ids;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(options_.state, failed)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("engine-") || !file.ends_with(".pid")) continue;
    std::int32_t id = 0;
    const char* last = file.data() + file.size() - 4;
    if (std::from_chars(file.data() + 7, last, id).ptr == last) ids.push_back(id);
  }
  std::ranges::sort(ids);
  std::vector<control::PlanExecutor::Member> found;
  Engines without_slot;
  for (const std::int32_t id : ids) {
    next_ = std::max(next_, id + 1);
    if (auto member = adopt(id, without_slot)) found.push_back(std::move(*member));
  }
  end_when_empty(without_slot);  // before anything starts, which may be on their GPUs
  for (const auto& member : found) {
    if (!pair_of(found, member)) at(member.id).decode = kNoInstance;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto decodes = [&](const auto& other) { return at(other.id).decode == found[i].id; };
    if (std::ranges::any_of(found, decodes)) continue;  // with its prefill engine
    const auto member = paired(found, i);
    scaler_->adopt(member, now());
    for (const auto& one : found) {
      if (!member.is(one.id)) continue;
      decision({now(), journal::DecisionKind::Phase, mode, RequestId{-1}, one.id,
                static_cast<std::int64_t>(member.phase), "left by a planner that is gone"});
    }
  }
}

/// Which of the pairs a prefill engine and the one that it was started with are. None: that one is gone, or places and
/// [[fleet]]s are others than then.
std::optional<std::size_t> PlannedFleet::pair_of(const std::vector<control::PlanExecutor::Member>& found,
                                                 const control::PlanExecutor::Member& prefill) {
  const auto other = std::ranges::find(found, at(prefill.id).decode, &control::PlanExecutor::Member::id);
  if (other == found.end()) return std::nullopt;
  const auto pair = std::ranges::find_if(
      pairs_, [&](const PairShape& of) { return of.prefill == prefill.shape && of.decode == other->shape; });
  return pair == pairs_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(pair - pairs_.begin()));
}

/// With the other engine of its pair; one that has lost it drains.
control::PlanExecutor::Member PlannedFleet::paired(std::vector<control::PlanExecutor::Member>& found,
                                                   std::size_t at_position) {
  control::PlanExecutor::Member member = found[at_position];
  Engine& engine = at(member.id);
  const auto& pools = loaded_.scenario.pools;
  const bool beside = std::ranges::find(pools, Role::Colocated, &config::PoolOptions::role) != pools.end();
  // Beside colocated engines others are of pairs alone.
  if (pools[slots_[engine.slot].pool].role == Role::Colocated || !beside) return member;
  const auto pair = pair_of(found, member);
  if (!pair) {
    engine.offered = false;
    engine.served = true;
    member.phase = Phase::Draining;
    return member;
  }
  const auto other = std::ranges::find(found, engine.decode, &control::PlanExecutor::Member::id);
  member.shape = pools.size() + *pair;
  member.decode = {other->id, other->node, other->gpus};
  member.outdated = member.outdated || other->outdated;
  if (member.phase == other->phase) return member;
  const bool drains = member.phase == Phase::Draining || other->phase == Phase::Draining;
  member.phase = drains ? Phase::Draining : Phase::Spawning;
  if (drains) {
    engine.offered = false;  // the decode engine drains after it
    engine.served = true;
    return member;
  }
  for (Engine* half : {&engine, &at(other->id)}) {  // what serves already takes requests again at once
    half->warms = half->warms && !half->offered;
    half->offered = false;
  }
  return member;
}

void PlannedFleet::stop_all(Engines& engines) {
  for (auto& [id, engine] : engines) {
    if (engine.process) stop(engine);
    note(id, engine);
  }
}

/// They get no more requests; what still runs after Options::drain is cut off.
void PlannedFleet::end_when_empty(Engines& engines) {
  for (auto& [id, engine] : engines) {
    if (engine.process) withdraw(engine);
  }
  // Of one about which the gateway does not answer nothing is known that is worth waiting for.
  const auto busy = [this](auto& entry) {
    Engine& engine = entry.second;
    return engine.process && engine.process->running() && look(engine).active_requests > 0;
  };
  const Instant limit = now() + options_.drain;
  while (now() < limit && std::ranges::any_of(engines, busy)) usleep(100'000);
  stop_all(engines);
}

void PlannedFleet::leave_all() {
  for (auto& [id, engine] : engines_) {
    note(id, engine);
    if (engine.process) engine.process->leave();
    engine.process.reset();
  }
}

PlannedFleet::~PlannedFleet() {
  if (!options_.state.empty()) leave_all();
}

void PlannedFleet::end() {
  tell_journal();
  options_.state.empty() ? end_when_empty(engines_) : leave_all();
}

}  // namespace wattle::planner
