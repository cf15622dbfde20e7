// The plan executor's steps, from start to end.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "control/member_phase.h"
#include "control/plan_executor.h"

namespace wattle::control {

void PlanExecutor::step_record(StepKind kind, InstanceId about, const char* reason, Instant now) {
  sink_.decision(
      {now, journal::DecisionKind::Step, mode_, RequestId{-1}, about, static_cast<std::int64_t>(kind), reason});
}

bool PlanExecutor::claimed(InstanceId id) const {
  return std::ranges::any_of(running_, [id](const Running& r) { return contains(r.from, id) || contains(r.to, id); });
}

bool PlanExecutor::about_to_leave(InstanceId id) const {
  return std::ranges::any_of(running_, [id](const Running& r) { return contains(r.from, id); }) ||
         std::ranges::any_of(pending_, [id](const PlanStep& s) { return contains(s.from, id); });
}

void PlanExecutor::set_changing() {
  for (Member& m : members_) m.changing = claimed(m.id);
}

// --- a step begins ---

bool PlanExecutor::begin_next(Instant now) {
  if (pending_.empty() || !room_for_a_change()) return false;
  const PlanStep step = pending_.front();
  const InstanceId about = step.from.empty() ? kNoInstance : step.from.front();
  const char* why = "";
  Begun begun = begin(step, why, now);
  if (begun == Begun::Wait) {
    const auto on_its_way = [](const Member& m) { return !is_serving(m); };
    const auto can_come = [&](const Need& need) { return need.missing() > 0 && placeable(need); };
    const bool hope =
        !running_.empty() || std::ranges::any_of(members_, on_its_way) || std::ranges::any_of(needs_, can_come);
    if (hope) return false;
    begun = Begun::Never;
  }
  pending_.pop_front();
  step_record(step.kind, about, begun == Begun::Yes ? "begun" : why, now);
  return true;
}

PlanExecutor::Begun PlanExecutor::begin(const PlanStep& step, const char*& why, Instant now) {
  switch (step.kind) {
    case StepKind::Start:
      return begin_start(step, why, now);
    case StepKind::Drain:
    case StepKind::Move:
    case StepKind::Reshard:
      return begin_leaving(step, why, now);
    case StepKind::Reroute:
      why = "a pool that it names does not serve";
      if (!next_weights_) return Begun::Yes;
      if (!pools_serve(*next_weights_, {})) return Begun::Wait;
      weights_ = std::move(*next_weights_);
      next_weights_.reset();
      port_.reroute(weights_, now);
      return Begun::Yes;
  }
  return Begun::Never;
}

PlanExecutor::Begun PlanExecutor::begin_start(const PlanStep& step, const char*& why, Instant now) {
  const std::size_t shape = step.to.front();
  const PoolId pool = step.pool.value_or(options_.shapes[shape].pool);
  // The stock includes this step: a need that it fills is full with it and lacks one instance without it.
  const auto filled = [&](const Need& need) {
    return need.shape == shape && (!need.pool || *need.pool == pool) &&
           (!need.node || !step.node || *need.node == *step.node) && need.coming > 0;
  };
  const auto coming = std::ranges::count_if(
      members_, [&](const Member& m) { return is_coming(m) && m.shape == shape && m.pool == pool; });
  const auto need = std::ranges::find_if(needs_, filled);
  if (need == needs_.end() || need->coming <= coming) {
    why = "the planned instances exist or are starting";
    return Begun::Never;
  }
  why = "no node has room";
  auto stand = stand_for(shape, step.node);
  if (!stand) return Begun::Wait;
  const InstanceId id = start(*need, pool, std::move(*stand), "a step of the plan", now);
  running_.push_back({.kind = StepKind::Start, .from = {}, .to = {id}});
  return Begun::Yes;
}

PlanExecutor::Begun PlanExecutor::begin_leaving(const PlanStep& step, const char*& why, Instant now) {
  for (const InstanceId id : step.from) {
    const Member* m = find(id);
    why = "an instance it is from does not serve any more";
    if (m == nullptr || !is_serving(*m) || claimed(id)) return Begun::Never;
    why = "a pair is neither moved nor re-sharded";
    if (m->decode && step.kind != StepKind::Drain) return Begun::Never;
  }
  if (step.kind == StepKind::Reshard) return begin_reshard(step, why, now);
  Member& from = *find(step.from.front());
  if (step.kind == StepKind::Move) {
    why = "the node has no room";
    auto place = room_for(from.shape, step.node);
    if (!place) return Begun::Wait;
    const InstanceId left = from.id;
    const StartOrder order{.shape = from.shape,
                           .pool = step.pool.value_or(from.pool),
                           .node = place->node,
                           .gpus = std::move(place->gpus)};
    const InstanceId id = spawn(order, "it takes another's place", now);
    running_.push_back({.kind = StepKind::Move, .from = {left}, .to = {id}});
    return Begun::Yes;
  }
  why = "nothing else serves";
  if (!may_leave(step.from)) return Begun::Wait;
  running_.push_back({.kind = StepKind::Drain, .from = step.from, .to = {}});
  enter(from, Phase::Draining, "a step of the plan", now);
  port_.drain(step.from.front(), now);
  return Begun::Yes;
}

PlanExecutor::Relayout PlanExecutor::relayout_of(const PlanStep& step) {
  Relayout made{.problem = options_.reshard, .gpus = {}, .joining = {}};
  made.problem.present.clear();
  made.problem.next.clear();
  auto& gpus = made.gpus;
  for (const InstanceId id : step.from) {
    const Member& m = *find(id);
    plan::PlacedInstance placed;
    for (std::int32_t g = 0; g < options_.shapes[m.shape].gpus; ++g) {
      placed.gpus.push_back(static_cast<int>(gpus.size()));
      gpus.push_back(m.gpus.empty() ? static_cast<std::int32_t>(gpus.size()) : m.gpus[static_cast<std::size_t>(g)]);
    }
    made.problem.present.push_back(std::move(placed));
  }
  made.more = -static_cast<std::int32_t>(gpus.size());
  for (const std::size_t shape : step.to) {
    made.problem.next.push_back({options_.shapes[shape].gpus, 0});
    made.more += options_.shapes[shape].gpus;
  }
  if (slots_.accounts() && made.more > 0) {
    made.joining = slots_.lowest_free(find(step.from.front())->node, made.more);
  }
  std::ranges::copy(made.joining, std::back_inserter(gpus));
  made.problem.nodes = 1;
  made.problem.gpus_per_node = static_cast<int>(gpus.size());
  return made;
}

/// Of the instances that start, on certain GPUs of those it holds and, if it needs more, the node's free ones. More has
/// to be moved then than the matching states.
bool PlanExecutor::place_certainly(Running& running, Relayout& relayout) {
  std::vector<std::size_t> shapes;
  for (const StartOrder& order : running.waiting) shapes.push_back(order.shape);
  auto within = running.gpus;
  if (relayout.more > 0)
    std::ranges::copy(slots_.lowest_free(running.node, slots_.free_on(running.node)), std::back_inserter(within));
  auto places = slots_.side_by_side(shapes, running.node, within);
  if (!places) return false;
  relayout.joining.clear();
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    for (const std::int32_t g : (*places)[k]) {
      if (std::ranges::find(running.gpus, g) == running.gpus.end()) relayout.joining.push_back(g);
    }
    running.waiting[k].gpus = std::move((*places)[k]);
  }
  return true;
}

PlanExecutor::Begun PlanExecutor::begin_reshard(const PlanStep& step, const char*& why, Instant now) {
  const Member first = *find(step.from.front());
  Relayout relayout = relayout_of(step);
  const auto layout = plan::plan_reshard(relayout.problem);
  why = "the new layout does not fit the GPUs";
  if (!layout) return Begun::Never;

  Running running{.kind = StepKind::Reshard, .from = {}, .to = {}, .node = first.node, .gpus = {}};
  bool serves_on = true;
  for (std::size_t i = 0; i < step.from.size(); ++i) {
    if (layout->old[i].unchanged) continue;  // it stays, as one of the new instances
    running.from.push_back(step.from[i]);
    serves_on = serves_on && layout->old[i].serves_on;
    if (slots_.accounts()) std::ranges::copy(find(step.from[i])->gpus, std::back_inserter(running.gpus));
  }
  for (std::size_t k = 0; k < step.to.size(); ++k) {
    const auto& placed = layout->placed[k];
    const auto& present = relayout.problem.present;
    if (std::ranges::find(present, placed) != present.end()) continue;
    StartOrder order{.shape = step.to[k],
                     .pool = step.pool.value_or(first.pool),
                     .node = first.node,
                     .gpus = {},
                     .from = running.from,
                     .load = layout->total_time};
    if (slots_.accounts()) {
      for (const int g : placed.gpus) order.gpus.push_back(relayout.gpus[static_cast<std::size_t>(g)]);
    }
    running.waiting.push_back(std::move(order));
  }
  why = "no places on its GPUs for the new layout";
  if (slots_.only_certain() && !place_certainly(running, relayout)) return Begun::Never;
  why = "memory holds no second engine, and nothing else serves";
  if (!serves_on && !may_leave(running.from)) return Begun::Wait;
  running.leaving_first = !serves_on;
  std::ranges::copy(relayout.joining, std::back_inserter(running.gpus));
  slots_.take(running.node, running.gpus);
  running_.push_back(std::move(running));
  const std::vector<InstanceId> from = running_.back().from;  // a copy: draining may end some of them at once
  for (std::size_t i = 0; i < step.from.size(); ++i) {
    if (!contains(from, step.from[i])) continue;
    if (serves_on) {
      port_.squeeze(step.from[i], layout->old[i].throughput_lost, now);
    } else {
      enter(*find(step.from[i]), Phase::Draining, "a re-shard takes its GPUs first", now);
      port_.drain(step.from[i], now);
    }
  }
  return Begun::Yes;
}

// --- it goes on ---

bool PlanExecutor::advance_running(Instant now) {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    bool acted = false;
    const char* end = advance(running_[i], acted, now);
    if (end != nullptr) end_step(i, end, now);
    if (acted || end != nullptr) return true;
  }
  return false;
}

const char* PlanExecutor::advance(Running& step, bool& acted, Instant now) {
  if (step.kind == StepKind::Drain) return step.from.empty() ? "done" : nullptr;
  if (!step.waiting.empty()) {
    if (!slots_.is_up(step.node)) return "its node died";
    if (step.leaving_first && !step.from.empty()) return nullptr;
    for (const StartOrder& order : std::exchange(step.waiting, {})) {
      step.to.push_back(spawn(order, "its GPUs are re-sharded", now));
    }
    acted = true;
    return nullptr;
  }
  if (step.to.empty()) return "its new instance died";
  for (const InstanceId id : step.to) {
    if (!is_serving(*find(id))) return nullptr;
  }
  if (step.from.empty()) return "done";
  for (const InstanceId id : std::vector(step.from)) {  // a copy: draining may end it at once
    Member* m = find(id);
    // If its successor is in another pool, it stays until its own pool has another instance or gets no requests.
    if (m == nullptr || !is_serving(*m) || !may_leave(std::array{id})) continue;
    acted = true;
    enter(*m, Phase::Draining, "its successor serves", now);
    port_.drain(id, now);
  }
  return nullptr;
}

void PlanExecutor::end_step(std::size_t i, const char* reason, Instant now) {
  const Running step = std::move(running_[i]);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  slots_.give(step.node, step.gpus);
  if (step.kind == StepKind::Reshard) {
    for (const InstanceId id : step.from) port_.squeeze(id, 0.0, now);
  }
  const InstanceId about = !step.to.empty() ? step.to.front() : step.from.empty() ? kNoInstance : step.from.front();
  step_record(step.kind, about, reason, now);
}

// --- it is called off ---

/// Whether the plan wants as many instances as this step brings.
bool PlanExecutor::still_wanted(const Running& step) const {
  std::vector<std::int32_t> brings(options_.shapes.size(), 0);
  for (const StartOrder& order : step.waiting) ++brings[order.shape];
  for (const Member& m : members_) {
    if (contains(step.to, m.id)) ++brings[m.shape];
  }
  for (std::size_t s = 0; s < brings.size(); ++s) {
    std::int32_t wanted = 0;
    for (const Need& need : needs_) wanted += need.shape == s ? need.count : 0;
    if (brings[s] > wanted) return false;
  }
  return true;
}

/// A newer plan: steps other than re-shards become plain starts and drains by the new counts.
void PlanExecutor::supersede(Instant now) {
  for (std::size_t i = running_.size(); i-- > 0;) {
    const Running& step = running_[i];
    if (step.kind != StepKind::Reshard) {
      if (step.kind != StepKind::Move || step.from.empty())
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    const bool one_serves =
        std::ranges::any_of(members_, [&](const Member& m) { return contains(step.to, m.id) && is_serving(m); });
    if (!one_serves && !still_wanted(step)) roll_back(i, "superseded by a newer plan", now);
  }
}

void PlanExecutor::roll_back(std::size_t i, const char* reason, Instant now) {
  const Running step = running_[i];
  end_step(i, reason, now);
  for (const InstanceId id : step.to) {
    const Member* m = find(id);
    if (m == nullptr || !is_coming(*m)) continue;
    port_.stop(id, now);
    leave(id, "rolled back", now);
  }
  for (const InstanceId id : step.from) {
    Member* m = find(id);
    if (m == nullptr || !is_draining(*m)) continue;
    enter(*m, Phase::Serving, "rolled back", now);
    port_.open(id, now);
  }
}

/// A new executor does not know the running steps. Two instances on one GPU are a re-shard, the younger one its result.
void PlanExecutor::resume_reshards() {
  const auto shares = [](const Member& a, const Member& b) {
    return a.node == b.node &&
           std::ranges::any_of(a.gpus, [&](std::int32_t g) { return std::ranges::find(b.gpus, g) != b.gpus.end(); });
  };
  for (std::size_t young = 0; young < members_.size(); ++young) {
    for (std::size_t old = 0; old < young; ++old) {
      if (!shares(members_[old], members_[young])) continue;
      const InstanceId from = members_[old].id;
      const InstanceId to = members_[young].id;
      const auto theirs = [&](const Running& r) { return contains(r.from, from) || contains(r.to, to); };
      auto step = std::ranges::find_if(running_, theirs);
      if (step == running_.end()) {
        step = running_.insert(running_.end(), {.kind = StepKind::Reshard, .node = members_[old].node});
      }
      if (!contains(step->from, from)) step->from.push_back(from);
      if (!contains(step->to, to)) step->to.push_back(to);
    }
  }
}

}  // namespace wattle::control
