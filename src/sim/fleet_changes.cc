// How a simulated fleet changes: instances start, drain, stop, die and recover.
#include <algorithm>

#include "base/check.h"
#include "sim/simulation_impl.h"

namespace wattle::sim {

void Simulation::apply_fault(const Event& event) {
  const std::size_t i = index(event.instance);
  if (i >= engines_.size()) return;  // nothing of this id was ever started
  auto& replica = engines_[i];
  if (event.event_class == EventClass::Recovery) {
    replica.revive(event.at);
    requests_.set_accepting(event.instance, true, event.at);
    engines_.wake(i);
    return;
  }
  if (replica.dead()) return;
  requests_.set_accepting(event.instance, false, event.at);
  loop_.cut_off(i);
  watchdog_.cut_off(i);
  const auto lost = replica.kill(event.at);
  engines_.wake(i);
  if (scaler_.enforced()) {
    stretches_.close(i, event.at);
    lives_.end(i, event.at);
    ledger_.instance_gone(event.instance, event.at);
    scaler_.died(event.instance, event.at);  // the fleet may grow: `replica` is no more
  } else if (event.down != Span::max()) {
    agenda_.push({event.at + event.down, EventClass::Recovery, 0, 0, 0, event.instance, Span()});
  }
  for (const Tag tag : lost) leave(tag, Fate::Failed, "the instance died", event.at);
  if (scaler_.enforced()) requests_.remove_instance(event.instance, event.at);
}

InstanceId Simulation::spawn(const control::StartOrder& order, Instant now) {
  const std::size_t i = engines_.size();
  const InstanceId id(static_cast<std::int32_t>(i));
  setup_.instances.push_back(setup_.scaling.shapes[order.shape].make(id));
  InstanceView view = view_of(setup_.instances.back());
  view.accepting = false;
  const InstanceId given = requests_.add_instance(view, now);
  WATTLE_CHECK(given == id && setup_.instances.back().id == id, "driver and loop number instances alike");
  sink_.joined(journal::facts_of(id, *setup_.instances.back().spec));
  engines_.grow();
  link_free_.emplace_back();
  set_up(i, now);
  loop_.idle(i, now);
  bound(i, now);
  engines_.wake(i);
  agenda_.push({now + setup_.scaling.load_time, EventClass::Loaded, 0, 0, 0, id, Span()});
  return id;
}

void Simulation::advance_start(const Event& event) {
  if (lives_.gone(index(event.instance))) return;  // given up, or dead
  if (event.event_class == EventClass::Loaded) {
    scaler_.up(event.instance, event.at);
    return;
  }
  requests_.set_accepting(event.instance, true, event.at);
  scaler_.serving(event.instance, event.at);
}

void Simulation::open(InstanceId instance, Instant now) {
  const auto& members = scaler_.members();
  if (std::ranges::find(members, instance, &control::PlanExecutor::Member::id)->phase == journal::Phase::Warming) {
    agenda_.push({now + setup_.scaling.warm_time, EventClass::Warm, 0, 0, 0, instance, Span()});
    return;
  }
  requests_.set_accepting(instance, true, now);
}

void Simulation::drain(InstanceId instance, Instant now) {
  requests_.set_accepting(instance, false, now);
  perhaps_drained(instance, now);
}

void Simulation::perhaps_drained(InstanceId instance, Instant now) {
  const auto& view = requests_.instances()[index(instance)];
  if (view.assigned_requests == 0 && !view.accepting) scaler_.drained(instance, now);
}

void Simulation::bound(std::size_t i, Instant now) {
  const PoolId pool = setup_.instances[i].spec->pool;
  const auto range = std::ranges::find(clock_ranges_, pool, &ClockRange::pool);
  loop_.bound(i, range == clock_ranges_.end() ? std::nullopt : std::optional(*range), now);
}

void Simulation::bound(std::span<const ClockRange> clocks, Instant now) {
  clock_ranges_.assign(clocks.begin(), clocks.end());
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (!lives_.gone(i)) bound(i, now);
  }
}

void Simulation::stop(InstanceId instance, Instant now) {
  const std::size_t i = index(instance);
  WATTLE_CHECK(engines_[i].kill(now).empty(), "only an empty instance is stopped");
  stretches_.close(i, now);
  lives_.end(i, now);
  ledger_.instance_gone(instance, now);
  requests_.remove_instance(instance, now);
  engines_.wake(i);
}

}  // namespace wattle::sim
