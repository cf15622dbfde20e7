// How a simulated fleet changes: instances start, drain, stop, die and recover.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "model/clock_setting.h"
#include "sim/simulation_impl.h"

namespace wattle::sim {

void Simulation::apply_fault(const Event& event) {
  const auto there = index_.find(event.instance);
  if (!there) return;  // gone, or nothing of this id was ever started
  const std::size_t i = *there;
  auto& replica = engines_[i];
  Instant& down_until = down_until_[event.instance];
  if (event.event_class == EventClass::Recovery) {
    if (event.at < down_until || !replica.dead()) return;  // a later fault keeps it down
    replica.revive(event.at);
    requests_.set_accepting(event.instance, true, event.at);
    engines_.wake(i);
    return;
  }
  const Instant until = event.down == Span::max() ? Instant::never() : event.at + event.down;
  down_until = std::max(down_until, until);
  const auto comes_back = [&] {
    if (until == Instant::never() || scaler_.enforced()) return;
    agenda_.push({until, EventClass::Recovery, 0, 0, 0, event.instance, Span()});
  };
  if (replica.dead()) return comes_back();
  requests_.set_accepting(event.instance, false, event.at);
  loop_.cut_off(i);
  watchdog_.cut_off(i);
  const auto lost = replica.kill(event.at);
  engines_.wake(i);
  fleet_changed_ = true;
  if (scaler_.enforced()) {
    gone(event.instance, event.at);
    scaler_.died(event.instance, event.at);
  } else {
    comes_back();
  }
  for (const Tag tag : lost) lose(tag, event.instance, event.at);
  if (scaler_.enforced()) requests_.remove_instance(event.instance, event.at);
}

/// Unknown to the control plane, which only sees how long steps take.
void Simulation::limit_clock(const Event& event) {
  const auto there = index_.find(event.instance);
  if (!there) return;
  auto& spells = hot_[event.instance];
  std::erase_if(spells, [&](const HotSpell& spell) { return spell.until <= event.at; });
  if (event.event_class == EventClass::Hot) {
    const Instant until = event.down == Span::max() ? Instant::never() : event.at + event.down;
    spells.push_back({until, event.clock_share});
    if (until < Instant::never()) agenda_.push({until, EventClass::Cooled, 0, 0, 0, event.instance, Span()});
  }
  const auto lowest = std::ranges::min_element(spells, {}, &HotSpell::share);
  std::optional<MegaHertz> most;
  if (lowest != spells.end()) most = ClockSetting::share(lowest->share).on(*setup_.instances[*there].spec);
  engines_[*there].limit_clock(most, event.at);
  engines_.wake(*there);
}

/// As at the gateway: a request without a token at the client is computed elsewhere, once.
void Simulation::lose(Tag tag, InstanceId instance, Instant now) {
  auto& flight = flights_[tag];
  const bool unseen = flight.produced == 0 && flight.served.first_token == Instant::never();
  if (!unseen || std::exchange(flight.bounced, true)) return leave(tag, Fate::Failed, "the instance died", now);
  const std::array places{std::exchange(flight.prefill, kNoInstance), std::exchange(flight.decode, kNoInstance)};
  ++flight.life;  // its KV may be on the way
  flight.displaced = false;
  if (keeps_book()) book_.leave(flight.request.id);
  requests_.bounced(flight.request.id, instance, now);
  for (const InstanceId left : places) {
    if (left != instance && index_.find(left)) perhaps_drained(left, now);
  }
}

/// One that the run begins with; a pair with its prefill instance.
void Simulation::adopt(std::size_t i) {
  const auto& instance = setup_.instances[i];
  const std::size_t shape = setup_.scaling.shape_of[i];
  const bool pair = setup_.scaling.shapes[shape].pair.has_value();
  if (pair && instance.spec->role == Role::Decode) return;
  control::PlanExecutor::Member member{instance.id, shape, Phase::Serving, Instant(), instance.spec->pool};
  if (pair) member.decode = {instance.spec->decode};
  const bool fits = scaler_.adopt(std::move(member), Instant());
  WATTLE_CHECK(fits, "the nodes have room for the instances that a run begins with");
}

InstanceId Simulation::spawn(const control::StartOrder& order, Instant now) {
  const std::size_t i = engines_.size();
  const InstanceId id(index_.newest().value() + 1);
  fleet_changed_ = true;
  setup_.instances.push_back(setup_.scaling.shapes[order.shape].make(id));
  auto& made = setup_.instances.back();
  if (made.spec->pool != order.pool || made.spec->node != order.node || order.weight > 0.0 ||
      order.decode != kNoInstance) {
    auto spec = std::make_shared<InstanceSpec>(*made.spec);
    spec->pool = order.pool;
    spec->node = order.node;
    spec->decode = order.decode;
    if (order.weight > 0.0) spec->weight = order.weight;
    made.spec = std::move(spec);
  }
  borrow(order, made);
  InstanceView view = view_of(setup_.instances.back());
  view.accepting = false;
  const InstanceId given = requests_.add_instance(view, now);
  WATTLE_CHECK(given == id && setup_.instances.back().id == id, "driver and loop number instances alike");
  sink_.joined({id, *setup_.instances.back().spec});
  engines_.grow();
  link_free_.emplace_back();
  set_up(i, now);
  says_idle(i, now);
  bound(i, now);
  engines_.wake(i);
  if (order.load) resharded_.insert(id);
  agenda_.push({now + order.load.value_or(setup_.scaling.load_time), EventClass::Loaded, 0, 0, 0, id, Span()});
  return id;
}

void Simulation::advance_start(const Event& event) {
  if (!index_.find(event.instance)) return;  // given up, or dead
  if (event.event_class == EventClass::Loaded) {
    scaler_.up(event.instance, event.at);
    return;
  }
  requests_.set_accepting(event.instance, true, event.at);
  scaler_.serving(event.instance, event.at);
}

void Simulation::open(InstanceId instance, Instant now) {
  if (scaler_.member_of(instance)->phase == journal::Phase::Warming) {
    if (resharded_.contains(instance)) {
      requests_.set_accepting(instance, true, now);
      return scaler_.serving(instance, now);
    }
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
  const auto& view = requests_.shown(instance);
  if (view.assigned_requests > 0 || view.accepting) return;
  // Requests whose KV is still being transferred are no longer assigned to the prefill instance.
  const auto i = index_.find(instance);
  if (i && setup_.instances[*i].spec->role == Role::Prefill && engines_[*i].requests_held() > 0) return;
  scaler_.drained(instance, now);
}

void Simulation::bound(std::size_t i, Instant now) {
  const PoolId pool = setup_.instances[i].spec->pool;
  const auto range = std::ranges::find(clock_ranges_, pool, &ClockRange::pool);
  loop_.bound(i, range == clock_ranges_.end() ? std::nullopt : std::optional(*range), now);
  engines_.interrupt(i, now);  // its policy is called again
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
  gone(instance, now);
  requests_.remove_instance(instance, now);
  engines_.wake(i);
}

/// Its engine is dead, and its GPUs belong to other instances.
void Simulation::gone(InstanceId instance, Instant now) {
  const std::size_t i = index(instance);
  stretches_.close(i, now, engines_[i].iterations());
  lives_.end(i, now);
  ledger_.instance_gone(instance, now);
  end_loans(instance, now);
  gone_.push_back(instance);
  fleet_changed_ = true;
}

void Simulation::forget_gone() {
  for (const InstanceId instance : gone_) {
    const std::size_t i = index_.remove(instance);
    erase_at(setup_.instances, i);
    erase_at(link_free_, i);
    engines_.remove(i);
    loop_.remove(instance);
    lives_.remove(i);
    stretches_.remove(i);
    watchdog_.remove(i);
    book_.forget(instance);
    looked_at_.erase(instance);
    drawn_.erase(instance);
    resharded_.erase(instance);
    hot_.erase(instance);
  }
  gone_.clear();
}

std::size_t Simulation::instances_kept() const {
  return std::max({index_.size(), setup_.instances.size(), link_free_.size(), engines_.size(), loop_.size(),
                   lives_.size(), stretches_.size(), watchdog_.size(), book_.instances(), drawn_.size(),
                   resharded_.size(), looked_at_.size(), hot_.size(), ledger_.instances(), requests_.instances().size(),
                   scaler_.members().size()});
}

// --- nodes, and GPUs on loan ---

NodeId Simulation::node_of(std::size_t i) const {
  const InstanceId id = setup_.instances[i].id;
  const auto* member = scaler_.member_of(id);
  return member == nullptr ? setup_.instances[i].spec->node : member->node_of(id);
}

void Simulation::apply_node_fault(const Event& event) {
  const bool up = event.event_class == EventClass::NodeRecovery;
  const auto each_there = [&](EventClass what, auto&& apply) {
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (lives_.gone(i) || node_of(i) != event.node) continue;
      Event one = event;
      one.event_class = what;
      one.instance = setup_.instances[i].id;
      apply(one);
    }
  };
  if (event.clock_share > 0.0) return each_there(EventClass::Hot, [&](const Event& one) { limit_clock(one); });
  Instant& down_until = node_down_until_[event.node];
  if (up && event.at < down_until) return;  // a later fault keeps it down
  scaler_.node_is(event.node, up, event.at);
  if (up) return;
  down_until = std::max(down_until, event.down == Span::max() ? Instant::never() : event.at + event.down);
  each_there(EventClass::Fault, [&](const Event& one) { apply_fault(one); });
  if (event.down == Span::max()) return;
  Event back = event;
  back.event_class = EventClass::NodeRecovery;
  back.at = event.at + event.down;
  agenda_.push(back);
}

void Simulation::book_spare_gpus(Instant now) {
  fleet_changed_ = false;
  const auto& idle = setup_.scaling.idle_gpu;
  if (std::ranges::none_of(idle, [](Milliwatts power) { return power > Milliwatts(0); })) return;
  const auto& nodes = setup_.scaling.nodes;
  const auto views = scaler_.nodes();
  std::vector<std::pair<std::int32_t, Milliwatts>> spare(setup_.sites.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!views[n].up || views[n].free_gpus == views[n].gpus || idle[n] == Milliwatts(0)) continue;
    auto& [gpus, power] = spare[static_cast<std::size_t>(nodes[n].site.value())];
    gpus += views[n].free_gpus;
    power = Milliwatts(power.value() + idle[n].value() * views[n].free_gpus);
  }
  for (std::size_t s = 0; s < spare.size(); ++s) {
    ledger_.spare_gpus(SiteId(static_cast<std::int32_t>(s)), spare[s].first, spare[s].second, now);
  }
}

/// Before the instance is set up: it draws nothing for GPUs that others still hold.
void Simulation::borrow(const control::StartOrder& order, const InstanceSetup& borrower) {
  const std::int32_t gpus = borrower.spec->tensor_parallel;
  std::int32_t all = 0;
  for (const InstanceId id : order.from) {
    if (const auto i = index_.find(id)) all += setup_.instances[*i].spec->tensor_parallel;  // it may have died since
  }
  for (const auto& member : scaler_.members()) {
    if (std::ranges::find(order.from, member.id) == order.from.end()) continue;
    const auto shared = std::ranges::count_if(
        order.gpus, [&](std::int32_t g) { return std::ranges::find(member.gpus, g) != member.gpus.end(); });
    // Where GPUs are not accounted for, each lends in proportion.
    const std::int32_t lent = order.gpus.empty() ? gpus * setup_.instances[index(member.id)].spec->tensor_parallel / all
                                                 : static_cast<std::int32_t>(shared);
    if (lent > 0) loans_.add(borrower.id, member.id, lent);
  }
}

void Simulation::end_loans(InstanceId gone, Instant now) {
  if (!loans_.any()) return;
  for (const InstanceId id : loans_.end(gone)) {
    const std::size_t i = index(id);
    ledger_.set_gpus(id, setup_.instances[i].spec->tensor_parallel - loans_.of(id), now);
    const Drawn& drawn = drawn_[id];
    ledger_.power_changes(id, now, own_power(id), drawn.decode_requests, drawn.prefill_tokens);
  }
  if (!loans_.any()) drawn_.clear();
}

Milliwatts Simulation::own_power(InstanceId instance) const {
  const Drawn& drawn = drawn_.at(instance);
  const std::int32_t borrowed = loans_.of(instance);
  if (borrowed == 0) return drawn.power;
  const auto& setup = setup_.instances[index(instance)];
  const Milliwatts idle = setup.model->idle_power(drawn.clock);
  const Milliwatts lent(idle.value() * borrowed / setup.spec->tensor_parallel);
  return Milliwatts(drawn.power.value() - std::min(drawn.power, lent).value());
}

void Simulation::squeeze(InstanceId instance, double lost, Instant now) {
  const std::size_t i = index(instance);
  if (engines_[i].dead()) return;
  engines_[i].squeeze(lost, now);
  kick(i, now);
}

}  // namespace wattle::sim
