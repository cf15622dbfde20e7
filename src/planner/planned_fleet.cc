#include "planner/planned_fleet.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "config/fleet_check.h"
#include "config/make_step_model.h"
#include "config/nodes.h"
#include "config/service.h"
#include "journal/decisions_jsonl.h"
#include "journal/names.h"
#include "net/clock.h"
#include "net/log.h"
#include "systems/compose.h"

namespace wattle::planner {
namespace {

constexpr Span kStartLimit = Span::s(120);   ///< on top of spawn.load_s
constexpr Span kBetweenLooks = Span::s(1);   ///< for nodes that are cut off, and for what has arrived
constexpr std::size_t kRemembered = 1000;    ///< phase changes shown at /fleet
constexpr std::size_t kMostUnsent = 10'000;  ///< records kept for a gateway that does not answer

}  // namespace

PlannedFleet::PlannedFleet(const config::LoadedScenario& loaded, std::vector<EngineSlot> slots, Options options)
    : loaded_(loaded),
      slots_(std::move(slots)),
      gateway_(options.gateway, options.gateway_token),
      options_(std::move(options)),
      managers_(options_.managers),
      cut_offs_(options_.cut_off_after, options_.cut_off_pause),
      begin_(net::steady_now()) {
  const auto& scenario = loaded_.scenario;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    home_.push_back(scenario.serving_pools.empty() ? PoolId(static_cast<std::int32_t>(p))
                                                   : config::pool_named(scenario, scenario.pools[p].pool));
  }
  pairs_ = config::pairs_of(scenario);
  for (const PairShape& pair : pairs_) home_.push_back(home_[pair.prefill]);
}

/// A node has the GPUs that its slots name, in their order.
std::vector<Node> PlannedFleet::number_gpus() {
  std::map<NodeId, std::vector<std::string>> names;
  for (EngineSlot& slot : slots_) {
    auto& of_node = names[slot.node];
    slot.places.clear();
    for (const std::string& gpu : slot.gpus) {
      auto found = std::ranges::find(of_node, gpu);
      if (found == of_node.end()) found = of_node.insert(of_node.end(), gpu);
      slot.places.push_back(static_cast<std::int32_t>(found - of_node.begin()));
    }
  }
  std::vector<Node> nodes;
  for (const auto& [id, gpus] : names) nodes.push_back({id, "", "", static_cast<std::int32_t>(gpus.size()), {}});
  return nodes;
}

Instant PlannedFleet::now() const { return Instant() + (net::steady_now() - begin_); }

Result<void> PlannedFleet::begin(const systems::Recipe& recipe) {
  if (auto ok = config::check_tensor_parallel_only(loaded_, "the planner"); !ok) return ok;
  if (auto ok = take_folders(); !ok) return ok;
  const auto& scenario = loaded_.scenario;
  control::PlanExecutorOptions options;
  options.period = options.retry = recipe.scaling_period;
  options.surge = recipe.scaling_surge;
  options.spawn_limit = scenario.spawn.load + scenario.spawn.warm + kStartLimit;
  for (const auto& pool : scenario.pools) {
    options.shapes.push_back({pool.tensor_parallel,
                              pool.max_load_per_s,
                              scenario.spawn.load + scenario.spawn.warm,
                              home_[options.shapes.size()],
                              {},
                              pool.role});
  }
  for (const PairShape& pair : pairs_) {
    policy::Shape shape = options.shapes[pair.prefill];
    shape.gpus += options.shapes[pair.decode].gpus;
    shape.role = Role::Colocated;
    shape.pair = pair;
    options.shapes.push_back(std::move(shape));
  }
  options.nodes = number_gpus();
  for (const EngineSlot& slot : slots_) options.places.push_back({slot.pool, slot.node, slot.places});
  std::shared_ptr<policy::ScalingPolicy> policy = given_;
  if (!managers_.any()) {
    systems::ScalingInputs inputs = options_.inputs;
    inputs.shapes.assign(options.shapes.begin(), options.shapes.end());
    inputs.cluster = config::cluster_of(loaded_);
    if (scenario.nodes.empty()) {
      inputs.cluster.node_gpus.clear();
      for (const Node& node : options.nodes) inputs.cluster.node_gpus.push_back(node.gpus);
    }
    auto made = systems::make_scaling_policy(recipe, std::move(inputs));
    if (!made) return std::unexpected(made.error());
    if (*made) policy = std::move(*made);
  }
  options.reshard = config::reshard_problem(loaded_);
  options.reshard.gpu_bytes = 0;                     // virtual GPUs hold no weights
  options.weights_beside = !scenario.nodes.empty();  // as in the simulator
  options.at_once = recipe.scaling_at_once;
  const Mode mode = policy == given_ ? Mode::Enforce : recipe.scaling.mode;
  scaler_ = std::make_unique<control::PlanExecutor>(policy, mode, options, *this, *this);
  if (!options_.state.empty()) adopt_left(mode);
  if (!scaler_->members().empty()) {
    take_over_plan();
    if (policy == given_ && !managers_.any()) replace_outdated();
  } else {
    const auto first = first_plan(recipe, *policy);
    if (!first) return std::unexpected(first.error());
    if (auto begun = begin_first(*first, mode); !begun) {
      stop_all(engines_);
      return begun;
    }
    if (mode == Mode::Enforce && !first->weights.empty()) {  // from the first request on, as in the simulator
      std::set<PoolId> served;
      for (const auto& member : scaler_->members()) served.insert(member.pool);
      const auto weights = weights_where_served(first->weights, served);
      scaler_->adopt(weights, {});
      reroute(weights, now());
    }
  }
  count_arrivals();
  tell();
  return {};
}

InstanceId PlannedFleet::spawn(const control::StartOrder& order, Instant) { return start(order); }

/// That of the shape on these GPUs.
std::optional<std::size_t> PlannedFleet::slot_for(const control::StartOrder& order) const {
  const auto found = std::ranges::find_if(slots_, [&](const EngineSlot& slot) {
    return slot.pool == order.shape && slot.node == order.node && slot.places == order.gpus;
  });
  if (found == slots_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - slots_.begin());
}

bool PlannedFleet::meet(const EngineSlot& a, const EngineSlot& b) const {
  return a.node == b.node && std::ranges::find_first_of(a.gpus, b.gpus) != a.gpus.end();
}

InstanceId PlannedFleet::start(const control::StartOrder& order) {
  const std::size_t shape = order.shape;
  const Span load = order.load.value_or(loaded_.scenario.spawn.load);
  const InstanceId id(next_++);
  const auto place = slot_for(order);
  Engine& engine = engines_[id.value()];
  engine.warms = !order.load.has_value();
  engine.pool = order.pool;
  engine.weight = order.weight;
  engine.decode = order.decode;
  if (!place) {
    net::log_line(net::LogLevel::Warning, "no slot for an engine of this [[fleet]] on this node",
                  {{"fleet", static_cast<std::int64_t>(shape)}, {"node", order.node.value()}});
    return id;
  }
  engine.slot = *place;
  const auto name = fmt::format("engine-{}", id.value());
  const auto log = (std::filesystem::path(options_.logs) / (name + ".log")).string();
  const auto trace = options_.state.empty() ? std::nullopt : std::optional(trace_of(name));
  auto child = launch::Child::start(name, engine_command(loaded_, slots_[*place], name, load), log, trace);
  if (child) {
    engine.process.emplace(std::move(*child));
  } else {
    net::log_line(net::LogLevel::Error, "an engine did not start", {{"error", child.error().message()}});
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
  if (pool.role != Role::Colocated) body["worker_type"] = journal::name_of(pool.role);
  if (engine.weight > 0.0) body["weight"] = engine.weight;
  if (engine.decode != kNoInstance) {
    const auto other = engines_.find(engine.decode.value());
    if (other == engines_.end()) return;  // it has ended, and this one is about to
    (void)look(other->second);            // forgets the gateway's name of it if that has restarted
    if (other->second.worker.empty()) announce(other->second);
    if (other->second.worker.empty()) return;
    body["decode"] = other->second.worker;
  }
  if (!pool.site.empty()) body["site"] = pool.site;
  body["pool"] = engine.pool.value();
  body["node"] = slot.node.value();
  const auto model = config::make_step_model(loaded_.gpus[slot.pool], loaded_.llm, pool.tensor_parallel,
                                             config::engine_of(loaded_.scenario, pool));
  if (model) body["kv_capacity_tokens"] = model->kv_blocks() * loaded_.scenario.engine.block_size;
  engine.worker = gateway_.add_worker(body);
}

/// Called for one that has come up, which takes requests when it is warm, or called back from draining.
void PlannedFleet::open(InstanceId instance, Instant) {
  const auto* member = scaler_->member_of(instance);
  if (member != nullptr && member->phase != journal::Phase::Warming) at(instance).offered = true;
}

void PlannedFleet::stop(InstanceId instance, Instant) { stop(at(instance)); }

void PlannedFleet::stop(Engine& engine) {
  withdraw(engine);
  if (engine.process) engine.process->stop(Span::s(2));
  engine.process.reset();
}

/// Whatever the gateway does not know yet; what fails is tried again at the next turn.
void PlannedFleet::tell_gateway(InstanceId id) {
  Engine& engine = at(id);
  if (engine.offered == engine.accepted || (engine.url.empty() && engine.worker.empty())) return;
  (void)look(engine);
  if (engine.worker.empty()) announce(engine);
  if (engine.worker.empty()) return;
  const auto answer = engine.offered ? gateway_.offer(engine.worker, engine.url) : gateway_.withdraw(engine.worker);
  if (answer == GatewayAdmin::Answer::Done) engine.accepted = engine.offered;
  engine.served = engine.served || engine.accepted;
  if (answer == GatewayAdmin::Answer::Unknown) engine.forget_gateway();
}

/// It gets no requests any more, and may never have had any.
void PlannedFleet::withdraw(Engine& engine) {
  engine.offered = engine.accepted = false;
  engine.over = true;
  (void)look(engine);
  if (!engine.worker.empty()) gateway_.withdraw(engine.worker);
}

/// A gateway that has restarted knows no engine of ours: they are announced again.
GatewayAdmin::Seen PlannedFleet::look(Engine& engine) {
  if (engine.worker.empty()) return {};
  auto seen = gateway_.look(engine.worker, engine.url);
  if (seen.answer == GatewayAdmin::Answer::Unknown) {
    engine.forget_gateway();
    at_gateway_.next_put = now();  // nor the plan
  }
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

/// Of all members, both of a pair.
std::vector<InstanceId> PlannedFleet::all_engines() const {
  std::vector<InstanceId> ids;
  for (const auto& member : scaler_->members()) {
    if (member.decode) ids.push_back(member.decode->id);
    ids.push_back(member.id);
  }
  return ids;
}

/// `id`: the member, or one of it.
void PlannedFleet::look_at(const control::PlanExecutor::Member& member, InstanceId id) {
  using journal::Phase;
  Engine& engine = at(id);
  if (!engine.process || !engine.process->running()) {
    if (engine.process)
      net::log_line(net::LogLevel::Warning, "an engine died",
                    {{"instance", id.value()}, {"how", std::string_view(engine.process->end())}});
    engine.process.reset();
    withdraw(engine);  // its health probes would find out, later
    scaler_->died(id, now());
    return;
  }
  tell_gateway(id);
  const auto& spawn = loaded_.scenario.spawn;
  if (member.phase == Phase::Spawning) {
    if (answers(engine)) {
      if (engine.up_since == Instant::never()) engine.up_since = now();  // of a pair the other one may not be up yet
      scaler_->up(id, now());
    }
  } else if (member.phase == Phase::Warming) {
    // Requests come to it from now on, and not before; the gateway finds out for itself that it is healthy.
    if (!engine.warms || now() >= engine.up_since + spawn.warm) engine.offered = true;
    tell_gateway(id);
    if (engine.offered && look(engine).status == "ready") scaler_->serving(id, now());
  } else if (member.phase == Phase::Draining && !engine.accepted) {
    const auto seen = look(engine);
    // A gateway that does not know it has sent it nothing that still runs through it.
    if (engine.worker.empty() || seen.active_requests == 0) scaler_->drained(id, now());
  }
}

/// Nobody knows what has come since a gateway does not answer, is stopping, or has restarted and counts from 0.
void PlannedFleet::count_arrivals() {
  const auto said = gateway_.in_force();
  const Span since = now() - std::exchange(asked_, now());
  const auto before = [&](std::size_t c) { return c < arrived_->size() ? (*arrived_)[c] : 0; };
  bool known = said && arrived_ && !said->stopping;
  for (std::size_t c = 0; known && c < said->arrived.size(); ++c) known = said->arrived[c] >= before(c);
  if (!known) scaler_->unheard(since);
  if (!said) return;
  for (std::size_t c = 0; known && c < said->arrived.size(); ++c) {
    scaler_->arrived(now(), ClassId(static_cast<std::int32_t>(c)), said->arrived[c] - before(c));
  }
  if (arrived_) {
    const TurnedOut fresh = said->turned_out.since(turned_out_);
    scaler_->finished(fresh);
    finished_.add(fresh);
  }
  arrived_ = said->arrived;
  turned_out_ = said->turned_out;
}

void PlannedFleet::turn() {
  for (const InstanceId id : all_engines()) {  // they change as they are looked at
    if (const auto* member = scaler_->member_of(id)) look_at(control::PlanExecutor::Member(*member), id);
  }
  const bool looks = now() >= next_look_;
  if (looks) {  // what it finds may be planned for at once
    next_look_ = now() + kBetweenLooks;
    look_for_cut_offs();
  }
  const bool plans = now() >= scaler_->next_tick() || given_->fresh();
  if (looks || plans) count_arrivals();
  if (plans) {
    if (managers_.any()) {
      if (auto plan = managers_.plan(observed())) given_->give(std::move(*plan));
    }
    scaler_->tick(now());
  }
  for (const InstanceId id : all_engines()) tell_gateway(id);
  for (auto& [id, engine] : engines_) note(id, engine);
  assert_plan();
  tell_journal();
  forget_past();
  tell();
}

void PlannedFleet::plan(const journal::PlanRecord& record) {
  std::string line;
  journal::append_plan_line(line, record);
  levels_ = nlohmann::ordered_json::parse(line, nullptr, false);
  const char* reason = record.flaw == nullptr ? record.plan.reason : record.flaw;
  unsent({{record.at, journal::DecisionKind::Plan, record.mode, RequestId{-1}, InstanceId{-1}, record.gpus, reason},
          levels_.value("plan", nlohmann::ordered_json::object())});
}

void PlannedFleet::unsent(Unsent one) {
  if (unsent_.size() == kMostUnsent) unsent_.pop_front();
  unsent_.push_back(std::move(one));
}

void PlannedFleet::decision(const journal::DecisionRecord& record) {
  if (record.kind == journal::DecisionKind::Step) {
    const auto kind = journal::name_of(static_cast<StepKind>(record.value));
    net::log_line(net::LogLevel::Info, "plan step",
                  {{"step", kind}, {"engine", record.instance.value()}, {"reason", record.reason}});
    steps_.push_back({{"at_s", record.at.seconds()},
                      {"kind", kind},
                      {"engine", record.instance.value()},
                      {"reason", record.reason}});
    if (steps_.size() > kRemembered) steps_.erase(steps_.begin());
    return;
  }
  unsent({record, {}});
  if (record.kind == journal::DecisionKind::Scaling) {
    plan_ = {{"at_s", record.at.seconds()}, {"gpus", record.value}, {"reason", record.reason}};
    return;
  }
  const auto phase = journal::name_of(static_cast<journal::Phase>(record.value));
  const auto& engine = at(record.instance);
  phases_.push_back({{"at_s", record.at.seconds()},
                     {"engine", record.instance.value()},
                     {"fleet", slots_[engine.slot].pool},
                     {"pool", engine.pool.value()},
                     {"phase", phase},
                     {"reason", record.reason}});
  if (phases_.size() > kRemembered) phases_.erase(phases_.begin());
  net::log_line(net::LogLevel::Info, "engine",
                {{"engine", record.instance.value()}, {"phase", phase}, {"reason", record.reason}});
}

void PlannedFleet::tell() {
  nlohmann::ordered_json all{{"plan", plan_}, {"engines", nlohmann::ordered_json::array()}};
  for (const InstanceId id : all_engines()) {
    const auto& engine = at(id);
    const auto& slot = slots_[engine.slot];
    all["engines"].push_back({{"engine", id.value()},
                              {"fleet", slot.pool},
                              {"role", journal::name_of(loaded_.scenario.pools[slot.pool].role)},
                              {"decode", engine.decode.value()},
                              {"pool", engine.pool.value()},
                              {"node", slot.node.value()},
                              {"phase", journal::name_of(scaler_->member_of(id)->phase)},
                              {"url", engine.url},
                              {"worker", engine.worker},
                              {"pid", engine.process ? engine.process->pid() : -1},
                              {"gpus", slot.gpus}});
  }
  if (!levels_.empty()) all["newest_plan"] = levels_;
  all["phases"] = phases_;
  all["steps"] = steps_;
  all["records_refused"] = refused_;
  all["log_dropped"] = net::log_lines_lost();
  const std::lock_guard lock(mutex_);
  shown_ = all.dump();
}

}  // namespace wattle::planner
