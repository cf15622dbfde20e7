#include "control/plan_executor.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "control/member_phase.h"
#include "control/pool_router.h"

namespace wattle::control {

PlanExecutor::PlanExecutor(std::shared_ptr<policy::ScalingPolicy> policy, Mode mode, PlanExecutorOptions options,
                           FleetPort& port, journal::Sink& sink)
    : policy_(std::move(policy)),
      mode_(mode),
      options_(std::move(options)),
      port_(port),
      sink_(sink),
      slots_(options_.nodes, options_.places),
      attempts_(options_.shapes.size()),
      period_ends_(Instant() + options_.period),
      next_tick_(policy_ && mode_ != Mode::Off ? period_ends_ : Instant::never()) {
  WATTLE_CHECK(options_.period > Span(), "a plan executor has a period");
  WATTLE_CHECK(options_.at_once > 0, "a plan executor may change something");
  for (const auto& shape : options_.shapes) bounds_.gpus_of_shape.push_back(shape.gpus);
  // If there is no colocated shape, prefill and decode instances serve on their own and are not halves of pairs.
  const auto beside = [](const policy::Shape& shape) { return shape.role == Role::Colocated && !shape.pair; };
  if (std::ranges::any_of(options_.shapes, beside)) {
    for (const auto& shape : options_.shapes) bounds_.half_of_pair.push_back(shape.role != Role::Colocated);
  }
}

PlanExecutor::Member* PlanExecutor::find(InstanceId instance) { return const_cast<Member*>(member_of(instance)); }

const PlanExecutor::Member* PlanExecutor::member_of(InstanceId instance) const {
  const auto found = std::ranges::find_if(members_, [&](const Member& m) { return m.is(instance); });
  return found == members_.end() ? nullptr : &*found;
}

void PlanExecutor::enter(Member& member, Phase phase, const char* reason, Instant now) {
  member.phase = phase;
  member.since = now;
  forget_halves(member);
  const auto value = static_cast<std::int64_t>(phase);
  sink_.decision({now, journal::DecisionKind::Phase, mode_, RequestId{-1}, member.id, value, reason});
  if (!member.decode) return;
  sink_.decision({now, journal::DecisionKind::Phase, mode_, RequestId{-1}, member.decode->id, value, reason});
}

void PlanExecutor::leave(InstanceId instance, const char* reason, Instant now) {
  Member* member = find(instance);
  enter(*member, Phase::Gone, reason, now);
  give_gpus(*member);
  members_.erase(members_.begin() + (member - members_.data()));
  for (Running& step : running_) {
    std::erase(step.from, instance);
    std::erase(step.to, instance);
  }
}

const std::vector<policy::ShapeCount>& PlanExecutor::count() {
  counts_.assign(options_.shapes.size(), {});
  for (const auto& m : members_) {
    auto& c = counts_[m.shape];
    if (is_coming(m)) ++c.coming;
    if (is_draining(m)) ++c.draining;
    if (!is_serving(m)) continue;
    ++c.serving;
    c.serving_since = std::max(c.serving_since, m.since);
  }
  return counts_;
}

// --- what is observed ---

bool PlanExecutor::adopt(FleetMember member, Instant) {
  WATTLE_CHECK(member.shape < options_.shapes.size(), "a known shape");
  if (member.gpus.empty() && slots_.accounts()) {
    if (!settle(member, false)) return false;
  } else {
    take_gpus(member);
  }
  members_.push_back(std::move(member));
  return true;
}

void PlanExecutor::up(InstanceId instance, Instant now) {
  Member* member = find(instance);
  if (member == nullptr || member->phase != Phase::Spawning || !both_have(*member, instance)) return;
  enter(*member, Phase::Warming, "it answers", now);
  open(*member, now);
}

void PlanExecutor::serving(InstanceId instance, Instant now) {
  Member* member = find(instance);
  if (member == nullptr || !is_coming(*member) || !both_have(*member, instance)) return;
  attempts_[member->shape] = {};
  enter(*member, Phase::Serving, "it takes requests", now);
  carry_out(now);
  // Less may have to be shed from now on.
  if (sheds_any(weights_)) ask_soon(now);
}

void PlanExecutor::drained(InstanceId instance, Instant now) {
  Member* member = find(instance);
  if (member == nullptr || !is_draining(*member)) return;
  if (member->decode && !contains(ahead_, member->id)) {
    if (instance != member->id) return;
    ahead_.push_back(instance);
    return port_.drain(member->decode->id, now);
  }
  // A driver that checks repeatedly may report the prefill instance several times.
  if (member->decode && instance != member->decode->id) return;
  end(Member(*member), now);
  leave(instance, "drained", now);
  carry_out(now);
}

void PlanExecutor::died(InstanceId instance, Instant now) {
  Member* member = find(instance);
  if (member == nullptr) return;
  const bool served = member->phase == Phase::Serving;
  if (is_coming(*member)) failed(member->shape, now);
  if (member->decode) {
    half_died(*member, instance, now);
  } else {
    leave(instance, "it died", now);
  }
  carry_out(now);
  if (served) ask_soon(now);
}

void PlanExecutor::node_is(NodeId node, bool up, Instant now) {
  const bool changed = slots_.is_up(node) != up;
  slots_.set_up(node, up);
  carry_out(now);
  if (changed) ask_soon(now);
}

// --- the plan ---

void PlanExecutor::accept(const Plan& plan, Instant now) {
  planned_ = true;
  needs_.clear();
  for (const PlanTarget& target : plan.instances) {
    const auto same = std::ranges::find_if(needs_, [&](const Need& need) {
      return need.shape == target.shape && need.node == target.node && need.pool == target.pool;
    });
    if (same == needs_.end()) {
      needs_.push_back({target.shape, target.node, target.pool, target.count});
      needs_.back().weight = target.weight;
    } else {
      same->count += target.count;
    }
  }
  std::ranges::stable_sort(needs_, {}, &Need::shape);
  const auto same_weight = [](const PoolWeight& a, const PoolWeight& b) {
    return a.request_class == b.request_class && a.pool == b.pool && a.weight == b.weight;
  };
  next_weights_.reset();
  if (!std::ranges::equal(plan.weights, weights_, same_weight)) next_weights_ = plan.weights;
  const auto same_range = [](const ClockRange& a, const ClockRange& b) {
    return a.pool == b.pool && a.least == b.least && a.most == b.most;
  };
  if (!std::ranges::equal(plan.clocks, clocks_, same_range)) {
    clocks_ = plan.clocks;
    port_.bound(clocks_, now);
  }
  pending_.assign(plan.steps.begin(), plan.steps.end());
  supersede(now);
}

void PlanExecutor::stop_late_starts(Instant now) {
  if (options_.spawn_limit == Span::max()) return;
  for (std::size_t i = members_.size(); i-- > 0;) {
    const Member member = members_[i];
    if (!is_coming(member) || now - member.since < options_.spawn_limit) continue;
    end(member, now);
    failed(member.shape, now);
    leave(member.id, "not up in time", now);
  }
}

bool PlanExecutor::wants_more() {
  if (!enforced()) return false;
  if (!planned_ || !running_.empty() || !pending_.empty()) return true;
  take_stock();
  return std::ranges::any_of(
      needs_, [&](const Need& need) { return need.serving < need.count && (need.coming > 0 || placeable(need)); });
}

void PlanExecutor::carry_out(Instant now) {
  if (!planned_) return;
  again_ = true;
  if (busy_) return;
  busy_ = true;
  while (again_) {
    again_ = false;
    // One change per pass, because a port that calls back changes the members.
    again_ = act(now) || again_;
  }
  busy_ = false;
}

bool PlanExecutor::act(Instant now) {
  take_stock();
  return call_back(now) || advance_running(now) || begin_next(now) || put_weights_in_force(now) || start_missing(now) ||
         give_up_coming(now) || drain_surplus(now);
}

/// Assigns instances to needs: serving ones before starting ones, those on fuller nodes first so that other nodes
/// become empty, older before younger, then those that steps will start. Needs that name a node or pool come first.
void PlanExecutor::take_stock() {
  surplus_.clear();
  for (Need& need : needs_) need.serving = need.coming = 0;
  staying_.clear();
  for (Member& m : members_) {
    if (is_serving(m) && !about_to_leave(m.id)) staying_.push_back(&m);
  }
  if (slots_.accounts()) {
    std::ranges::stable_sort(staying_, {}, [&](const Member* m) { return slots_.free_on(m->node); });
  }
  for (Member* m : staying_) count_in(m, m->shape, m->node, m->pool, true);
  for (Member& m : members_) {
    if (is_coming(m)) count_in(&m, m.shape, m.node, m.pool, false);
  }
  for (const Running& step : running_) {
    for (const StartOrder& order : step.waiting) count_in(nullptr, order.shape, order.node, order.pool, false);
  }
  for (const PlanStep& step : pending_) {
    const Member* from = step.from.empty() ? nullptr : find(step.from.front());
    const NodeId node = step.node.value_or(from != nullptr ? from->node : NodeId{});
    const PoolId pool = step.pool.value_or(from != nullptr ? from->pool : PoolId{});
    for (const std::size_t shape : step.to) count_in(nullptr, shape, node, pool, false);
    if (step.kind == StepKind::Move && from != nullptr) count_in(nullptr, from->shape, node, pool, false);
  }
}

void PlanExecutor::count_in(Member* member, std::size_t shape, NodeId node, PoolId pool, bool serves) {
  Need* best = nullptr;
  const bool counts = member == nullptr || !member->outdated;
  const auto care = [](const Need& need) { return (need.node ? 2 : 0) + (need.pool ? 1 : 0); };
  for (Need& need : needs_) {
    if (!counts || !need.fits(shape, node, pool) || need.missing() <= 0) continue;
    if (best == nullptr || care(need) > care(*best)) best = &need;
  }
  if (best != nullptr) {
    ++(serves ? best->serving : best->coming);
  } else if (member != nullptr && !claimed(member->id)) {
    surplus_.push_back(member->id);
  }
}

InstanceId PlanExecutor::spawn(StartOrder order, const char* reason, Instant now) {
  const InstanceId id = has_started(order, now);
  return joins({id, order.shape, Phase::Spawning, now, order.pool, order.node, order.gpus}, reason, now);
}

/// The driver has started the instance and its GPUs are taken.
InstanceId PlanExecutor::has_started(StartOrder& order, Instant now) {
  const auto& links = options_.reshard;
  const auto beside = [&](const Member& m) {
    return is_serving(m) && (m.node == order.node || (m.decode && m.decode->node == order.node));
  };
  if (!order.load && options_.weights_beside && links.weight_bytes > 0 && std::ranges::any_of(members_, beside)) {
    const double shard = static_cast<double>(links.weight_bytes) / options_.shapes[order.shape].gpus;
    const Span load = Span::from_seconds(shard / links.link_bytes_per_s) + links.sync;
    if (load < options_.shapes[order.shape].spawn_time) order.load = load;
  }
  const InstanceId id = port_.spawn(order, now);
  slots_.take(order.node, order.gpus);
  return id;
}

InstanceId PlanExecutor::joins(Member member, const char* reason, Instant now) {
  const InstanceId id = member.id;
  members_.push_back(std::move(member));
  enter(members_.back(), Phase::Spawning, reason, now);
  return id;
}

bool PlanExecutor::placeable(const Need& need) const { return stand_for(need.shape, need.node).has_value(); }

bool PlanExecutor::room_for_a_change() const {
  const auto free = [&](const Member& m) { return !is_serving(m) && !claimed(m.id); };
  return std::ssize(running_) + std::ranges::count_if(members_, free) < options_.at_once;
}

/// Whether each pool of `weights` that gets requests has a serving instance other than `without`.
bool PlanExecutor::pools_serve(std::span<const PoolWeight> weights, std::span<const InstanceId> without) const {
  return std::ranges::all_of(weights, [&](const PoolWeight& w) {
    return w.weight <= 0.0 || std::ranges::any_of(members_, [&](const Member& m) {
             return is_serving(m) && m.pool == w.pool && !contains(without, m.id);
           });
  });
}

/// Whether the fleet, and each of their pools that gets requests, still has a serving instance without them.
bool PlanExecutor::may_leave(std::span<const InstanceId> ids) const {
  const auto serves = [&](const Member& m) { return is_serving(m) && !contains(ids, m.id); };
  if (std::ranges::none_of(members_, serves)) return false;
  std::vector<PoolWeight> touched;
  for (const PoolWeight& w : weights_) {
    const auto theirs = [&](const Member& m) { return m.pool == w.pool && contains(ids, m.id); };
    if (std::ranges::any_of(members_, theirs)) touched.push_back(w);
  }
  return pools_serve(touched, ids);
}

bool PlanExecutor::call_back(Instant now) {
  const bool dark = std::ranges::none_of(members_, is_serving);
  const auto dark_pool = [&](PoolId pool) {
    const auto of = [&](const PoolWeight& w) { return w.pool == pool && w.weight > 0.0; };
    return std::ranges::any_of(weights_, of) &&
           std::ranges::none_of(members_, [&](const Member& m) { return is_serving(m) && m.pool == pool; });
  };
  // A draining instance is back soonest; if none serves, any instance helps.
  for (std::size_t shape = 0; shape < options_.shapes.size(); ++shape) {
    for (std::size_t i = members_.size(); i-- > 0;) {
      Member& m = members_[i];
      if (m.shape != shape || !is_draining(m) || is_half(m) || m.outdated) continue;
      const auto wants = [&](const Need& need) { return need.fits(m.shape, m.node, m.pool) && need.missing() > 0; };
      const auto of = [&](const Running& r) { return r.kind == StepKind::Reshard && contains(r.from, m.id); };
      const auto reshard = std::ranges::find_if(running_, of);
      const bool needed = dark || dark_pool(m.pool);
      if (reshard != running_.end()) {
        if (!needed || reshard->waiting.empty()) continue;
        roll_back(static_cast<std::size_t>(reshard - running_.begin()), "nothing else serves", now);
        return true;
      }
      if (!needed && !std::ranges::any_of(needs_, wants)) continue;
      if (slots_.accounts() && m.gpus.empty()) {  // it gave up its GPUs when it began to drain
        if (!settle(m, true)) continue;
      }
      const InstanceId id = m.id;
      for (Running& step : running_) std::erase(step.from, id);
      enter(m, Phase::Serving, "called back from draining", now);
      open(m, now);
      return true;
    }
  }
  return false;
}

bool PlanExecutor::start_missing(Instant now) {
  for (const Need& need : needs_) {
    if (need.missing() <= 0 || now < attempts_[need.shape].not_before || !room_for_a_change()) continue;
    auto stand = stand_for(need.shape, need.node);
    if (!stand) continue;
    start(need, need.pool.value_or(options_.shapes[need.shape].pool), std::move(*stand), "the plan wants it", now);
    return true;
  }
  return false;
}

bool PlanExecutor::give_up_coming(Instant now) {
  for (std::size_t shape = 0; shape < options_.shapes.size(); ++shape) {
    for (std::size_t i = surplus_.size(); i-- > 0;) {
      const Member* m = find(surplus_[i]);
      if (m->shape != shape || !is_coming(*m)) continue;
      const InstanceId id = m->id;
      end(Member(*m), now);
      leave(id, "no longer wanted", now);
      return true;
    }
  }
  return false;
}

bool PlanExecutor::put_weights_in_force(Instant now) {
  if (!next_weights_ || !pools_serve(*next_weights_, {})) return false;
  if (std::ranges::find(pending_, StepKind::Reroute, &PlanStep::kind) != pending_.end()) return false;
  weights_ = std::move(*next_weights_);
  next_weights_.reset();
  port_.reroute(weights_, now);
  return true;
}

bool PlanExecutor::drain_surplus(Instant now) {
  bool starved = false;  // a need lacks GPUs that surplus instances hold
  for (const Need& need : needs_) {
    if (need.serving >= need.count) continue;
    if (need.coming > 0 || placeable(need)) return false;
    starved = true;
  }
  if (starved && !options_.beside_draining && std::ranges::any_of(members_, is_draining)) return false;
  if ((next_weights_ && !starved) || !room_for_a_change()) return false;
  // Instances whose GPUs allow a missing instance to start are drained first.
  const auto makes_room = [&](const Member& m) {
    give_gpus(m);
    const bool room =
        std::ranges::any_of(needs_, [&](const Need& need) { return need.serving < need.count && placeable(need); });
    take_gpus(m);
    return room;
  };
  const auto helps = [&](InstanceId id) {
    const Member* m = find(id);
    return is_serving(*m) && may_leave(std::array{id}) && makes_room(*m);
  };
  const bool someone_helps = starved && std::ranges::any_of(surplus_, helps);
  // If there is room for no other, what is to be replaced leaves before its successor comes, even as the last.
  const auto makes_way = [&](const Member& m) { return starved && !someone_helps && m.outdated && makes_room(m); };
  for (std::size_t shape = 0; shape < options_.shapes.size(); ++shape) {
    for (std::size_t i = surplus_.size(); i-- > 0;) {
      Member* m = find(surplus_[i]);
      if (m->shape != shape || !is_serving(*m)) continue;
      if (!may_leave(std::array{m->id}) && !makes_way(*m)) continue;
      if (someone_helps && !helps(m->id)) continue;
      const InstanceId id = m->id;
      enter(*m, Phase::Draining, starved ? "the plan needs its GPUs" : "the planned instances serve", now);
      if (options_.beside_draining) give_up_gpus(*m);
      port_.drain(id, now);
      return true;
    }
  }
  return false;
}

}  // namespace wattle::control
