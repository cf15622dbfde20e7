// The plan executor's members: single instances and P/D pairs.
#include <utility>

#include "control/member_phase.h"
#include "control/plan_executor.h"

namespace wattle::control {

/// The instance of a pair with more GPUs is placed first, because the smaller one is easier to place.
std::optional<PlanExecutor::Stand> PlanExecutor::stand_for(std::size_t shape, std::optional<NodeId> node,
                                                           std::optional<NodeId> decode_node) const {
  const auto& pair = options_.shapes[shape].pair;
  if (!pair) {
    auto place = room_for(shape, node);
    if (!place) return std::nullopt;
    return Stand{std::move(*place), std::nullopt};
  }
  const auto in = [&](const GpuSlots& slots, std::size_t half) {
    const auto& of = options_.shapes[half];
    return slots.place(half, of.gpus, half == pair->prefill ? node : decode_node, of.nodes);
  };
  const bool decode_first = options_.shapes[pair->decode].gpus > options_.shapes[pair->prefill].gpus;
  auto first = in(slots_, decode_first ? pair->decode : pair->prefill);
  if (!first) return std::nullopt;
  GpuSlots then = slots_;
  then.take(first->node, first->gpus);
  auto second = in(then, decode_first ? pair->prefill : pair->decode);
  if (!second) return std::nullopt;
  if (decode_first) std::swap(first, second);
  return Stand{std::move(*first), std::move(second)};
}

InstanceId PlanExecutor::start(const Need& need, PoolId pool, Stand stand, const char* reason, Instant now) {
  const std::size_t shape = need.shape;
  const auto& pair = options_.shapes[shape].pair;
  StartOrder order{.shape = shape,
                   .pool = pool,
                   .node = stand.place.node,
                   .gpus = std::move(stand.place.gpus),
                   .weight = need.weight};
  if (!pair) return spawn(std::move(order), reason, now);
  StartOrder decode{
      .shape = pair->decode, .pool = pool, .node = stand.decode->node, .gpus = std::move(stand.decode->gpus)};
  order.shape = pair->prefill;
  order.decode = has_started(decode, now);
  Member member{has_started(order, now), shape, Phase::Spawning, now, pool, order.node, order.gpus};
  member.decode = {order.decode, decode.node, decode.gpus};
  return joins(std::move(member), reason, now);
}

/// Assigns GPUs to the member, on its present nodes or on any. False: there is no room.
bool PlanExecutor::settle(Member& member, bool where_it_is) {
  using At = std::optional<NodeId>;
  auto stand = stand_for(member.shape, where_it_is ? At(member.node) : At(),
                         where_it_is && member.decode ? At(member.decode->node) : At());
  if (!stand) return false;
  member.node = stand->place.node;
  member.gpus = std::move(stand->place.gpus);
  if (member.decode) {
    member.decode->node = stand->decode->node;
    member.decode->gpus = std::move(stand->decode->gpus);
  }
  take_gpus(member);
  return true;
}

void PlanExecutor::take_gpus(const Member& member) {
  slots_.take(member.node, member.gpus);
  if (member.decode) slots_.take(member.decode->node, member.decode->gpus);
}

void PlanExecutor::give_gpus(const Member& member) {
  slots_.give(member.node, member.gpus);
  if (member.decode) slots_.give(member.decode->node, member.decode->gpus);
}

void PlanExecutor::give_up_gpus(Member& member) {
  give_gpus(member);
  member.gpus.clear();
  if (member.decode) member.decode->gpus.clear();
}

/// Whether both halves of a pair have reached this state; `half` has. True for single instances.
bool PlanExecutor::both_have(const Member& member, InstanceId half) {
  if (!member.decode) return true;
  const InstanceId other = half == member.id ? member.decode->id : member.id;
  if (contains(ahead_, other)) return true;
  if (!contains(ahead_, half)) ahead_.push_back(half);
  return false;
}

void PlanExecutor::forget_halves(const Member& member) {
  std::erase_if(ahead_, [&](InstanceId id) { return member.is(id); });
}

/// Opens the decode instance first, so that the prefill instance has a destination.
void PlanExecutor::open(const Member& member, Instant now) {
  const InstanceId id = member.id;  // a copy: a port may call back and change the members
  if (member.decode) port_.open(member.decode->id, now);
  port_.open(id, now);
}

/// Stops the member's processes; leave() follows.
void PlanExecutor::end(const Member& member, Instant now) {
  port_.stop(member.id, now);
  if (member.decode) port_.stop(member.decode->id, now);
}

/// The remaining half finishes its requests and is not paired again.
void PlanExecutor::half_died(Member& member, InstanceId half, Instant now) {
  if (is_coming(member)) {
    port_.stop(half == member.id ? member.decode->id : member.id, now);
    return leave(member.id, "half of the pair died", now);
  }
  Member dead{half, member.shape, member.phase, member.since, member.pool};
  const Member::Half decode = *std::exchange(member.decode, {});
  const PairShape shapes = *options_.shapes[member.shape].pair;
  const bool drains = is_draining(member);
  const bool empty = drains && contains(ahead_, member.id);  // the prefill instance; the decode instance drains
  forget_halves(member);
  std::erase(ahead_, decode.id);
  if (half == decode.id) {
    member.shape = shapes.prefill;
    dead.node = decode.node;
    dead.gpus = decode.gpus;
  } else {
    dead.node = std::exchange(member.node, decode.node);
    dead.gpus = std::exchange(member.gpus, decode.gpus);
    member.id = decode.id;
    member.shape = shapes.decode;
    for (Running& step : running_) {
      std::erase(step.from, half);
      std::erase(step.to, half);
    }
  }
  give_gpus(dead);
  enter(dead, Phase::Gone, "it died", now);
  if (options_.beside_draining) give_up_gpus(member);
  const InstanceId left = member.id;
  enter(member, Phase::Draining, "the other half of the pair died", now);
  if (!drains || (left == decode.id && !empty)) return port_.drain(left, now);
  if (left != decode.id && empty) drained(left, now);
}

}  // namespace wattle::control
