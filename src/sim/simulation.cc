#include "sim/simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "control/consumption.h"
#include "control/next_step.h"
#include "sim/simulation_impl.h"

namespace wattle::sim {

namespace {
/// Engines that report ended steps say that they have been idle for so long.
constexpr Span kHeartbeat = Span::s(1);
}  // namespace

InstanceView Simulation::view_of(const InstanceSetup& instance) {
  InstanceView view;
  view.id = instance.id;
  view.spec = instance.spec.get();
  view.clock_commanded = instance.initial_clock;
  return view;
}

std::vector<InstanceView> Simulation::views() const {
  std::vector<InstanceView> result;
  for (const auto& instance : setup_.instances) result.push_back(view_of(instance));
  return result;
}

control::PlanExecutorOptions Simulation::scaler_options(const ScalingSetup& scaling) {
  control::PlanExecutorOptions options;
  options.period = scaling.period;
  options.surge = scaling.surge;
  for (const auto& shape : scaling.shapes) {
    options.shapes.push_back({shape.gpus, shape.max_load_per_s, scaling.load_time + scaling.warm_time, shape.pool,
                              shape.nodes, shape.role, shape.pair});
  }
  options.nodes = scaling.nodes;
  options.reshard = scaling.reshard;
  options.weights_beside = !scaling.nodes.empty();
  options.at_once = scaling.at_once;
  options.beside_draining = scaling.beside_draining;
  return options;
}

/// Commands take effect after exactly these delays.
control::InstanceLoopOptions Simulation::loop_options(const SimulationSetup& setup) {
  control::InstanceLoopOptions options;
  options.settle = setup.clock_delays.whole();
  return options;
}

control::FleetLoopOptions Simulation::fleet_options(const SimulationSetup& setup) {
  control::FleetLoopOptions options;
  options.service = setup.service;
  options.slo = setup.slo;
  options.emergency = setup.emergency;
  options.answers = setup.answers;
  return options;
}

/// The simulated half of setup_.instances[i].
void Simulation::set_up(std::size_t i, Instant now) {
  auto& instance = setup_.instances[i];
  engine::ReplicaOptions options;
  options.id = instance.id;
  options.role = instance.spec->role;
  options.engine = setup_.engine.of_groups(instance.data_groups);
  options.delays = setup_.clock_delays;
  options.initial_clock = instance.initial_clock;
  options.started = now;
  options.fast_forward = setup_.fast_forward;
  options.ended_reports = ended_reports();
  WATTLE_CHECK(index_.add(instance.id) == i, "instances are numbered as they come");
  lives_.add(now);
  ledger_.add_instance(now, instance.spec->tensor_parallel - loans_.of(instance.id), instance.spec->site);
  stretches_.add();
  watchdog_.add();
  engines_.add(*instance.model, options, *this);
  loop_.add({view_of(instance), instance.spec, std::move(instance.frequency.policy), instance.frequency.mode,
             instance.overrun_slack, instance.learner,
             step_starts_reported() ? StepMoment::Starts : StepMoment::Ended});
  if (const Slo* slo = requests_.held_to(instance.id)) loop_.held_to(i, *slo, now);
}

/// Of a request that a fleet dead for good has left behind.
Outcome so_far(const InFlightRequest& flight, const carbon::Ledger& ledger) {
  Outcome o;
  static_cast<Charge&>(o) = control::known(ledger, flight.account.charge());
  o.request = flight.request;
  o.fate = Fate::InFlight;
  o.reason = "the run ended";
  o.dispatched = o.prefill_start = o.left = Instant::never();
  o.first_token = flight.served.first_token;
  o.output_tokens = std::max(flight.served.output_tokens, flight.produced);
  o.preemptions = flight.served.preemptions;
  return o;
}

// ---------------------------------------------------------------------------------------------- the loop

SimulationResult Simulation::run() {
  for (std::size_t i = 0; i < loop_.size(); ++i) says_idle(i, Instant());
  book_spare_gpus(Instant());
  auto row = setup_.source->next();
  const bool sampling = setup_.sample_period > Span();
  Instant next_sample = sampling ? Instant() + setup_.sample_period : Instant::never();
  Instant now;

  for (;;) {
    const auto& counts = requests_.counts();
    if (!row && counts.in_flight == 0 && flights_.in_use() == 0) break;

    const Instant step = engines_.next_wake();
    const Instant rare = agenda_.next();
    const Instant arrival = row ? row->arrival : Instant::never();
    const Instant plan = scaler_.next_tick();
    const Instant look = requests_.next_tick();
    const Instant next = std::min({step, rare, plan, look, arrival, next_sample});
    // INV-7: whatever is unfinished has a future wake-up; only a fleet that is dead for good leaves requests behind.
    if (std::min({step, rare, arrival}) == Instant::never() && !scaler_.wants_more() && !requests_.will_squash()) break;
    WATTLE_CHECK(next >= now, "INV-1: time never runs backwards");
    now = next;
    ++events_;
    if (step == now) {
      step_ends(engines_.first(), now);
    } else if (rare == now) {
      handle(agenda_.pop());
    } else if (plan == now) {
      scaler_.finished(requests_.turned_out().since(heard_));
      heard_ = requests_.turned_out();
      scaler_.tick(now);
    } else if (look == now) {
      requests_.tick(now);
    } else if (arrival == now) {
      arrive(*row, now);
      row = setup_.source->next();
    } else {
      sample(now);
      next_sample = next_sample + setup_.sample_period;
    }
    if (fleet_changed_) book_spare_gpus(now);
    if (book_.changed()) tell_work(now);
    if (!gone_.empty()) forget_gone();
    if (setup_.check_invariants) check(now);
  }
  return result_at(std::max(last_left_, now));
}

SimulationResult Simulation::result_at(Instant end) {
  for (std::size_t i = 0; i < engines_.size(); ++i) stretches_.close(i, end, engines_[i].iterations());
  ledger_.close(end);
  for (const auto& flight : flights_.places()) {
    if (flight.alive) sink_.left_behind(so_far(flight, ledger_));
  }

  SimulationResult result{statistics_.summary(), statistics_.curves(), requests_.length()};
  auto& summary = result.summary;
  static_cast<journal::Consumption&>(summary) = control::consumption(ledger_, "simulated", setup_.service);
  const double seconds = end.seconds();
  const Lives::Sum lives = lives_.sum(end);
  summary.sim.iterations = engines_.iterations();
  if (seconds > 0.0)
    summary.mean_gpus =
        static_cast<double>(ledger_.fleet().total.gpu_time.ns()) / static_cast<double>((end - Instant()).ns());
  if (lives.seconds > 0.0) summary.clock_mean_mhz = lives.mhz_seconds / lives.seconds;
  summary.overruns = loop_.overruns();
  summary.prediction = loop_.prediction();
  summary.sim.virtual_s = seconds;
  summary.idle_power = to_watts(ledger_.idle_power());
  summary.sim.events = events_;
  summary.journal_digest = digest_.value();
  summary.derive();
  return result;
}

void Simulation::step_ends(std::size_t i, Instant now) {
  engines_[i].advance(now);
  // Handlers may submit to this or another replica, which adds no events, and take a request back from its waiting
  // line, which adds one; a hand-over frees nothing until it is done.
  while (!engines_[i].events().empty()) {
    handled_.swap(engines_[i].events());
    for (const auto& event : handled_) handle(event, i, now);
    handled_.clear();
  }
  kick(i, now);
}

void Simulation::handle(const engine::Event& event, std::size_t i, Instant now) {
  auto& flight = flights_[event.tag];
  auto& served = flight.served;
  if (event.kind == engine::EventKind::FirstToken) {
    served.prefill_start = event.prefill_start;
    served.cached_prompt_tokens = event.cached_tokens;
    if (keeps_book()) book_.prompt_done(flight.request.id, now);
    if (setup_.instances[i].spec->role == Role::Prefill && flight.true_output_tokens > 1) {
      return requests_.prefill_done(flight.request.id, now);
    }
    served.first_token = event.at;
    return requests_.first_token(flight.request.id, now);
  }
  served.output_tokens = event.output_tokens;
  served.preemptions += event.preemptions;
  served.gaps_within_itl += event.gaps_within_itl;
  served.longest_gap = std::max(served.longest_gap, event.longest_gap);
  if (flight.displaced && given_up(event, now)) return;
  const bool whole = event.output_tokens >= flight.true_output_tokens;
  leave(event.tag, whole || event.kind == engine::EventKind::Finished ? Fate::Finished : Fate::Cancelled, "", now);
}

void Simulation::kick(std::size_t i, Instant now) {
  if (engines_[i].wants_start()) {
    engines_[i].start_step(now, [this](const engine::Event& event) { taken_over(event); });
    if (step_starts_reported() || ended_reports()) watchdog_.run_begins(i, now);
    requests_.changed(setup_.instances[i].id);  // it may be in the midst of releasing held requests
  }
  engines_.wake(i);
}

void Simulation::boost(InstanceId instance, Instant until, Instant now) { loop_.boost(index(instance), until, now); }

void Simulation::handed_over(const control::HandOver& what, Instant) {
  for (const InstanceId instance : {what.prefill, what.decode}) {
    if (const auto i = index_.find(instance)) loop_.handed_over(*i, what.age, what.wait);
  }
}

void Simulation::finished(InstanceId instance, ClassId request_class, bool late) {
  if (const auto i = index_.find(instance)) loop_.finished(*i, request_class, 1, late ? 1 : 0);
}

void Simulation::refresh(InstanceId instance, Instant now) {
  const std::size_t i = index(instance);
  if (ended_reports()) loop_.see(i, engines_[i].last_ended(now));
  StepReport report = step_starts_reported() ? engines_[i].report(now)
                      : streams_alone() ? control::shown_by_streams(work_of(instance, now), *setup_.instances[i].spec,
                                                                    loop_.view(i).clock_commanded, now)
                                        : loop_.view(i).step;
  report.instance = instance;
  report.clock = loop_.view(i).clock_commanded;
  requests_.report(report, loop_.pace(i));
}

// ---------------------------------------------------------------------------------------------- observing

Hold Simulation::step_starts(const StepReport& report) {
  const std::size_t i = index(report.instance);
  if (setup_.stretches) stretches_.step(i, report, engines_[i].effective_clock(), engines_[i].iterations());
  if (step_starts_reported()) return loop_.step(i, report, report.start);
  return ended_reports() ? loop_.ahead(i, report) : Hold::forever();
}

void Simulation::goes_idle(InstanceId instance, Instant at) {
  const std::size_t i = index(instance);
  stretches_.close(i, at, engines_[i].iterations());
  if (step_starts_reported()) loop_.step(i, engines_[i].report(at), at);
  if (!ended_reports()) return;
  Event event{at + kHeartbeat, EventClass::Heartbeat, 0, 0, 0, instance, Span()};
  event.step = engines_[i].report(at).sequence;
  agenda_.push(event);
}

void Simulation::step_ended(const StepReport& report) {
  const std::size_t i = index(report.instance);
  loop_.note(i, book_.of(report.instance));
  loop_.step(i, report, report.start);
}

/// Of an engine that has had nothing to do since.
void Simulation::heartbeat(const Event& event) {
  const auto there = index_.find(event.instance);
  if (!there) return;
  const std::size_t i = *there;
  const StepReport& report = engines_[i].report(event.at);
  if (engines_[i].dead() || report.sequence != event.step || !report.shape.idle()) return;
  says_idle(i, event.at);
}

void Simulation::ask_idle(const Event& event) {
  const auto there = index_.find(event.instance);
  if (there && !engines_[*there].dead()) loop_.ask_idle(*there, event.at);
}

/// Reports that the engine is idle; also its first report.
void Simulation::says_idle(std::size_t i, Instant now) {
  if (!ended_reports()) return loop_.idle(i, now);
  StepReport report = engines_[i].report(now);
  report.moment = StepMoment::Ended;
  report.start = now;
  loop_.note(i, book_.of(report.instance));
  loop_.step(i, report, now);
}

void Simulation::tell_work(Instant now) {
  for (const InstanceId instance : book_.take_changed()) {
    const std::size_t i = index(instance);  // one that has just gone is still there
    const control::InstanceWork work = streams_alone() ? work_of(instance, now) : book_.of(instance);
    if (loop_.work(i, work, now) && ended_reports()) watchdog_.run_begins(i, now);
    if (streams_alone() && work.requests > 0) look_again(instance, now);
  }
}

/// With the tokens delivered by the engine: a relay of streams counts them.
control::InstanceWork Simulation::work_of(InstanceId instance, Instant now) {
  engine::Replica& engine = engines_[index(instance)];
  const std::int64_t context = engine.report(now).shape.decode_kv_tokens;
  return book_.of(instance).with_streams(context, engine.tokens(), engine.token_gaps());
}

void Simulation::look_again(InstanceId instance, Instant now) {
  const std::int64_t period = setup_.telemetry_period.ns();
  Instant next = now + setup_.telemetry_period;
  if (gauges_alone()) next = Instant((now.ns() / period + 1) * period);
  if (streams_alone()) next = std::min(next, std::max(loop_.ask_at(index(instance)), now + Span::ns(1)));
  const auto [planned, fresh] = looked_at_.try_emplace(instance, next);
  if (!fresh && planned->second <= next) return;
  planned->second = next;
  agenda_.push({next, EventClass::Look, 0, 0, 0, instance, Span()});
}

/// The instance had something to do when this was put down.
void Simulation::look_at(const Event& event) {
  const auto planned = looked_at_.find(event.instance);
  if (planned == looked_at_.end() || planned->second != event.at) return;  // there has been an earlier look
  looked_at_.erase(planned);
  const auto there = index_.find(event.instance);
  if (!there || engines_[*there].dead()) return;
  const Instant now = event.at;
  if (streams_alone()) {
    const control::InstanceWork work = work_of(event.instance, now);
    if (work.requests == 0) return;
    loop_.work(*there, work, now);
    return look_again(event.instance, now);
  }
  const StepReport& report = engines_[*there].report(now);
  const LoadGauges gauges{report.shape.decode_requests + report.shape.prefill_requests, report.waiting_requests,
                          report.kv_tokens, std::nullopt};
  const StepReport seen = control::seen_by_gauges(gauges, *setup_.instances[*there].spec, now);
  loop_.infer(*there, seen, TelemetrySource::Gauges, now);
  if (!seen.shape.idle() || seen.waiting_requests > 0) look_again(event.instance, now);
}

void Simulation::power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                               std::int64_t prefill_tokens, MegaHertz clock) {
  if (loans_.any()) {
    drawn_[instance] = {power, decode_requests, prefill_tokens, clock};
    power = own_power(instance);
  }
  ledger_.power_changes(instance, at, power, decode_requests, prefill_tokens);
  lives_.clock_is(index(instance), clock, at);
}

void Simulation::refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant now) {
  refitting_.push_back({&learner, learner.refitting()(samples)});
  agenda_.push({now + setup_.refit_delay, EventClass::Refitted, 0, 0, 0, kNoInstance, Span()});
}

void Simulation::refitted(Instant now) {
  Refitting done = std::move(refitting_.front());
  refitting_.pop_front();
  loop_.refitted(*done.learner, std::move(done.model), now);
}

Span Simulation::measured(Span duration) {
  if (setup_.sample_noise <= 0.0) return duration;
  const double factor = std::max(0.0, 1.0 + setup_.sample_noise * noise_.normal());
  return Span::from_seconds(duration.seconds() * factor);
}

void Simulation::handle(const Event& event) {
  switch (event.event_class) {
    case EventClass::Travelled:
      return travelled(event);
    case EventClass::Transfer:
      return transfer_done(event);
    case EventClass::Handed:
      return handed(event);
    case EventClass::Loaded:
    case EventClass::Warm:
      return advance_start(event);
    case EventClass::Overrun:
      return watchdog_.overrun(event);
    case EventClass::Silence:
      return watchdog_.silence(event);
    case EventClass::Look:
      return look_at(event);
    case EventClass::Heartbeat:
      return heartbeat(event);
    case EventClass::IdleAsk:
      return ask_idle(event);
    case EventClass::Refitted:
      return refitted(event.at);
    case EventClass::NodeFault:
    case EventClass::NodeRecovery:
      return apply_node_fault(event);
    case EventClass::Hot:
    case EventClass::Cooled:
      return limit_clock(event);
    default:
      return apply_fault(event);
  }
}

void Simulation::prefill_settled(InstanceId instance, Instant at, std::span<const engine::PrefillShare> shares) {
  booked_.clear();
  for (const auto& share : shares) booked_.push_back({&flights_[share.tag].account, share.tokens});
  ledger_.settle_prefill(instance, at, booked_);
}

void Simulation::sample(Instant now) {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    auto& replica = engines_[i];
    const StepReport report = replica.report(now);
    sink_.sample({now, report.instance, ledger_.power(report.instance), replica.effective_clock(),
                  report.shape.decode_requests, report.shape.prefill_tokens, report.waiting_requests, report.kv_tokens,
                  ledger_.energy_until(report.instance, now)});
  }
}

// ---------------------------------------------------------------------------------------------- checking

/// Whether meeting these objectives implies meeting the promised ones.
static bool keep(const Slo& these, const Slo& promised) {
  const auto none_is_looser = [&](std::optional<Span> Slo::*objective) {
    return !(promised.*objective) || (these.*objective && *(these.*objective) <= *(promised.*objective));
  };
  return none_is_looser(&Slo::ttft) && none_is_looser(&Slo::itl) && none_is_looser(&Slo::tbt) &&
         none_is_looser(&Slo::e2e);
}

void Simulation::check(Instant now) const {
  std::int64_t held_by_engines = 0;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    const auto& replica = engines_[i];
    replica.check_invariants();
    held_by_engines += replica.requests_held();
    WATTLE_CHECK(!lives_.gone(i) && setup_.instances[i].id == index_[i] && loop_.view(i).id == index_[i],
                 "INV-9: of an instance that is gone nothing is kept");
  }
  WATTLE_CHECK(instances_kept() == engines_.size(), "INV-9: whatever is kept of instances is of those that are there");
  check_fleet();
  const auto& counts = requests_.counts();
  const std::int64_t live = flights_.in_use();
  WATTLE_CHECK(live == counts.in_flight, "INV-2: the control loop and the driver count the same requests");
  WATTLE_CHECK(arrivals_ == statistics_.left() + live, "INV-2: arrived = left + in flight");
  WATTLE_CHECK(held_by_engines <= live + static_cast<std::int64_t>(agenda_.size()),
               "INV-2: no engine holds a request nobody knows");
  const auto totals = ledger_.fleet();
  WATTLE_CHECK(totals.total == totals.prefill + totals.decode + totals.idle + totals.residue,
               "INV-5: the parts of energy and carbon sum to the whole, exactly");
  for (const auto& flight : flights_.places()) {
    if (!flight.alive) continue;
    WATTLE_CHECK(flight.served.first_token == Instant::never() || flight.served.first_token <= now,
                 "INV-8: no token before its prefill has ended");
    const auto at = index_.find(flight.decode == kNoInstance ? flight.prefill : flight.decode);
    WATTLE_CHECK(
        !at || !loop_.objectives(*at) || keep(*loop_.objectives(*at), requests_.objectives().of(flight.request)),
        "INV-12: an instance is held to no looser objectives than a request in it");
  }
}

void Simulation::check_fleet() const {
  if (!scaler_.enforced()) return;
  std::vector<control::PlanExecutor::Member::Half> all;
  for (const auto& member : scaler_.members()) {
    const bool decodes = !member.decode || requests_.shown(member.decode->id).accepting;
    WATTLE_CHECK((requests_.shown(member.id).accepting && decodes) == (member.phase == journal::Phase::Serving),
                 "INV-9: exactly the serving instances, and pairs, accept requests");
    all.push_back({member.id, member.node, member.gpus});
    if (member.decode) all.push_back(*member.decode);
  }
  for (const auto& one : all) {
    for (const auto& other : all) {
      if (other.id == one.id || other.node != one.node || one.gpus.empty()) continue;
      WATTLE_CHECK(std::ranges::find_first_of(one.gpus, other.gpus) == one.gpus.end() ||
                       loans_.between(one.id, other.id) || loans_.between(other.id, one.id),
                   "INV-10: a GPU is one instance's, but for what a re-shard lends");
    }
  }
}

SimulationResult simulate(SimulationSetup setup) { return Simulation(std::move(setup)).run(); }

}  // namespace wattle::sim
