// Where a planned fleet's plans come from, what it begins with, and what the gateway carries out and writes down of
// them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "config/nodes.h"
#include "journal/names.h"
#include "net/log.h"
#include "planner/planned_fleet.h"

namespace wattle::planner {

namespace {

constexpr Span kFirstPlanLimit = Span::s(20);
constexpr Span kPutAgain = Span::s(1);  ///< what the gateway would not have

}  // namespace

/// What the scenario says; of a fleet that managers size by classes, what their first plan says.
Result<PlannedFleet::FirstPlan> PlannedFleet::first_plan(const systems::Recipe& recipe, policy::ScalingPolicy& policy) {
  const auto& pools = loaded_.scenario.pools;
  FirstPlan first;
  Plan plan;
  if (managers_.any()) {
    const Instant limit = now() + kFirstPlanLimit;
    auto made = managers_.plan(observed());
    for (; !made && now() < limit; made = managers_.plan(observed())) usleep(200'000);
    if (!made) return external_failure("--manager", "none has said what to begin with");
    plan = std::move(*made);
  } else if (recipe.scales() && (options_.inputs.loads != nullptr || options_.inputs.sites != nullptr)) {
    const std::vector<double> none = {0.0};
    const std::vector<policy::ShapeCount> counts(home_.size());
    policy::ScalingView view;
    view.now = now();
    view.rate_per_s = none;
    view.fleet = counts;
    plan = policy.plan(view);
    const auto wants = [](const PlanTarget& target) { return target.count > 0; };
    if (std::ranges::none_of(plan.instances, wants)) {
      return bad_input("the first plan", "has no instance: " + plan.why());
    }
  } else {
    first.planned = false;
    for (std::size_t p = 0; p < pools.size(); ++p) plan.instances.push_back({p, pools[p].count, {}, home_[p]});
  }
  for (const PlanTarget& target : plan.instances) {
    if (target.shape >= home_.size()) return bad_input("plan", "has a shape that the scenario has no [[fleet]] for");
    first.engines.insert(first.engines.end(), static_cast<std::size_t>(std::max(target.count, 0)),
                         {target.shape, target.pool.value_or(home_[target.shape]), target.weight});
  }
  first.weights = std::move(plan.weights);
  return first;
}

/// They serve before anything else is planned. What managers want and no slot is for is left to plans.
Result<void> PlannedFleet::begin_first(const FirstPlan& first, Mode mode) {
  const auto& engines = first.engines;
  std::vector<std::vector<InstanceId>> begun;
  std::int64_t without_slot = 0;
  for (const auto& [shape, pool, weight] : engines) {
    auto& ids = begun.emplace_back();
    for (const std::size_t fleet : config::instances_of(shape, loaded_.scenario)) {
      const auto overlaps = [&](const EngineSlot& slot) {
        return std::ranges::any_of(engines_, [&](const auto& e) { return meet(slot, slots_[e.second.slot]); });
      };
      const auto slot =
          std::ranges::find_if(slots_, [&](const EngineSlot& s) { return s.pool == fleet && !overlaps(s); });
      if (slot == slots_.end() && first.planned && ids.empty() && !engines_.empty()) {
        ++without_slot;
        break;
      }
      if (slot == slots_.end()) {
        const auto wanted = std::ranges::count(engines, shape, &First::shape);
        return bad_input(
            "--slot", fmt::format("there are too few for what the fleet begins with: {} of [[fleet]] {}, TP{}", wanted,
                                  fleet, loaded_.scenario.pools[fleet].tensor_parallel));
      }
      ids.push_back(start({.shape = fleet,
                           .pool = pool,
                           .node = slot->node,
                           .gpus = slot->places,
                           .load = Span(),
                           .weight = weight,
                           .decode = ids.empty() ? kNoInstance : ids.back()}));
      if (!at(ids.back()).process) return external_failure("engine", "the first engines could not be started");
    }
  }
  if (without_slot > 0) {
    net::log_line(net::LogLevel::Warning, "no slots for all that the first plan begins with",
                  {{"wanted", static_cast<std::int64_t>(engines.size())}, {"without_slot", without_slot}});
  }
  for (std::size_t i = 0; i < begun.size(); ++i) {
    if (begun[i].empty()) continue;
    for (const InstanceId id : begun[i]) {
      if (auto ready = await_ready(id); !ready) return ready;
    }
    const InstanceId id = begun[i].back();
    const EngineSlot& slot = slots_[at(id).slot];
    control::PlanExecutor::Member member{id,        engines[i].shape, Phase::Serving, now(), engines[i].pool,
                                         slot.node, slot.places};
    if (begun[i].size() > 1) {
      const EngineSlot& decode = slots_[at(begun[i].front()).slot];
      member.decode = {begun[i].front(), decode.node, decode.places};
    }
    scaler_->adopt(std::move(member), now());
    for (const InstanceId of : begun[i]) {
      decision({now(), journal::DecisionKind::Phase, mode, RequestId{-1}, of,
                static_cast<std::int64_t>(journal::Phase::Serving), "the scenario begins with it"});
    }
  }
  return {};
}

Result<void> PlannedFleet::await_ready(InstanceId id) {
  Engine& engine = at(id);
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
  return {};
}

/// For managers in processes of their own.
Observation PlannedFleet::observed() {
  Observation seen;
  seen.now = now();
  seen.rate_per_s = scaler_->rates(seen.now);
  seen.turned_out = std::exchange(finished_, {});
  seen.members = scaler_->members();
  seen.nodes = scaler_->nodes();
  seen.weights = scaler_->weights();
  seen.clocks = scaler_->clocks();
  seen.counts = scaler_->count();
  return seen;
}

// --- what the gateway carries out of a plan ---

/// Pools stay as they are until the first plan says otherwise.
void PlannedFleet::take_over_plan() {
  auto found = gateway_.in_force();
  if (!found) return;
  at_gateway_.any = !found->weights.empty() || !found->clocks.empty();
  at_gateway_.weights = found->weights;
  at_gateway_.clocks = found->clocks;
  scaler_->adopt(std::move(found->weights), std::move(found->clocks));
}

void PlannedFleet::reroute(std::span<const PoolWeight> weights, Instant now) {
  at_gateway_.weights.assign(weights.begin(), weights.end());
  at_gateway_.any = true;
  at_gateway_.next_put = now;
  assert_plan();
}

void PlannedFleet::bound(std::span<const ClockRange> clocks, Instant now) {
  at_gateway_.clocks.assign(clocks.begin(), clocks.end());
  at_gateway_.any = true;
  at_gateway_.next_put = now;
  assert_plan();
}

/// Again and again: leases end, and gateways restart.
void PlannedFleet::assert_plan() {
  if (!at_gateway_.any || now() < at_gateway_.next_put) return;
  const auto answer = gateway_.put_plan(at_gateway_.weights, at_gateway_.clocks, options_.clock_lease);
  const bool done = answer == GatewayAdmin::Answer::Done;
  at_gateway_.next_put = now() + (done ? options_.clock_lease / 4 : std::min(options_.clock_lease / 4, kPutAgain));
}

// --- what its journal has of it ---

PlannedFleet::Batch PlannedFleet::next_records(std::size_t most, Instant sent) {
  Batch batch;
  for (const auto& [r, plan] : unsent_) {
    if (batch.taken == most) break;
    nlohmann::ordered_json record{{"kind", journal::name_of(r.kind)},
                                  {"age_ms", (sent - r.at).millis()},
                                  {"mode", journal::name_of(r.mode)},
                                  {"reason", r.reason}};
    if (r.kind == journal::DecisionKind::Plan) {
      record["gpus"] = r.value;
      record["now_ns"] = sent.ns();
      record["plan"] = plan;
    } else if (r.kind == journal::DecisionKind::Scaling) {
      record["gpus"] = r.value;
    } else {
      const Engine& engine = at(r.instance);
      if (engine.worker.empty() && !engine.over) break;  // it will have an id
      record["phase"] = journal::name_of(static_cast<journal::Phase>(r.value));
      record["worker"] = engine.worker;
    }
    ++batch.taken;
    if (!record.contains("worker") || record["worker"] != "") batch.records.push_back(record);
  }
  return batch;
}

void PlannedFleet::tell_journal() {
  const Instant sent = now();  // one for all, or records of one instant would be out of order
  for (std::size_t most = unsent_.size(); !unsent_.empty();) {
    const Batch batch = next_records(most, sent);
    if (batch.taken == 0) return;
    if (!batch.records.empty()) {
      const auto answer = gateway_.record(batch.records);
      if (answer == GatewayAdmin::Answer::Failed) return;  // the next turn
      if (answer == GatewayAdmin::Answer::Refused) {
        if (batch.taken > 1) {  // not for the sake of one that is wrong
          most = batch.taken / 2;
          continue;
        }
        ++refused_;
      }
    }
    unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(batch.taken));
  }
}

/// One look at what serves, and what follows from it for nodes.
void PlannedFleet::look_for_cut_offs() {
  std::vector<CutOffs::Sight> sights;
  for (const InstanceId id : all_engines()) {
    Engine& engine = at(id);
    if (!engine.accepted || scaler_->member_of(id)->phase != journal::Phase::Serving) continue;
    const auto seen = look(engine);
    if (seen.answer == GatewayAdmin::Answer::Done) sights.push_back({slots_[engine.slot].node, seen.status == "ready"});
  }
  const auto changes = cut_offs_.look(sights, now());
  for (const auto& [node, up] : changes) {
    net::log_line(net::LogLevel::Warning,
                  up ? "a node that was cut off is tried again" : "a node is cut off: plans do without it",
                  {{"node", node.value()}});
    scaler_->node_is(node, up, now());
    if (up) continue;
    auto lost = all_engines();
    std::erase_if(lost, [&](InstanceId id) { return slots_[at(id).slot].node != node; });
    // All are withdrawn before one ends, so that what that one had is sent to none of the others.
    for (const InstanceId id : lost) withdraw(at(id));
    for (const InstanceId id : lost) {
      Engine& engine = at(id);
      if (engine.process) engine.process->stop(Span());  // of one far away nothing else can be known; here it ends
      engine.process.reset();
      scaler_->died(id, now());
    }
  }
}

}  // namespace wattle::planner
