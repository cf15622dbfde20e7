#include "sim/simulation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "control/consumption.h"
#include "engine/handoff.h"
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
  for (const auto& shape : scaling.shapes) {
    options.shapes.push_back({shape.gpus, shape.max_load_per_s, scaling.load_time + scaling.warm_time, shape.pool});
  }
  options.nodes = scaling.nodes;
  options.reshard = scaling.reshard;
  options.at_once = scaling.at_once;
  return options;
}

/// A command is in effect when its delays are over, neither sooner nor later.
control::InstanceLoopOptions Simulation::loop_options(const SimulationSetup& setup) {
  control::InstanceLoopOptions options;
  options.settle = setup.clock_delays.call + setup.clock_delays.transition;
  return options;
}

control::FleetLoopOptions Simulation::fleet_options(const SimulationSetup& setup) {
  control::FleetLoopOptions options;
  options.service = setup.service;
  options.slo = setup.slo;
  options.emergency = setup.emergency;
  return options;
}

/// The simulated half of setup_.instances[i].
void Simulation::set_up(std::size_t i, Instant now) {
  auto& instance = setup_.instances[i];
  engine::ReplicaOptions options;
  options.id = instance.id;
  options.role = instance.spec->role;
  options.engine = setup_.engine;
  options.delays = setup_.clock_delays;
  options.initial_clock = instance.initial_clock;
  options.started = now;
  options.itl_slo = setup_.slo.itl.value_or(Span::max());
  options.fast_forward = setup_.fast_forward;
  WATTLE_CHECK(index_.add(instance.id) == i, "instances are numbered as they come");
  lives_.add(now);
  ledger_.add_instance(now, instance.spec->tensor_parallel - loans_.of(instance.id), instance.spec->site);
  stretches_.add();
  watchdog_.add();
  engines_.add(*instance.model, options, *this);
  loop_.add({view_of(instance), instance.spec, std::move(instance.frequency.policy), instance.frequency.mode,
             instance.overrun_slack, instance.learner, setup_.step_reports});
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
  const Instant end = std::max(last_left_, now);
  stretches_.close_all(end);
  ledger_.close(end);

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
    served.first_token = event.at;
    served.prefill_start = event.prefill_start;
    if (ended_reports()) book_.prompt_done(flight.request.id);
    requests_.first_token(flight.request.id, now);
    if (setup_.instances[i].spec->role == Role::Prefill && flight.true_output_tokens > 1) {
      served.output_tokens = 1;
      requests_.prefill_done(flight.request.id, now);
    }
    return;
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
    engines_[i].start_step(now);
    watchdog_.run_begins(i);
    requests_.changed(setup_.instances[i].id);  // it may be in the midst of releasing held requests
  }
  engines_.wake(i);
}

void Simulation::withdraw(const Request& request, Tag tag, InstanceId instance, Instant now) {
  const RequestId id = request.id;  // the request may be gone before this returns
  const bool taken = engines_[index(instance)].withdraw(tag, now);
  if (taken) {
    flights_[tag].prefill = flights_[tag].decode = kNoInstance;
    if (ended_reports()) book_.leave(id);
    kick(index(instance), now);
  }
  requests_.withdrawn(id, taken, now);
  if (taken) perhaps_drained(instance, now);
}

void Simulation::boost(InstanceId instance, Instant until, Instant now) { loop_.boost(index(instance), until, now); }

void Simulation::refresh(InstanceId instance, Instant now) {
  const std::size_t i = index(instance);
  if (ended_reports()) loop_.see(i, engines_[i].last_ended(now));
  StepReport report = ended_reports() ? loop_.view(i).step : engines_[i].report(now);
  report.instance = instance;
  report.clock = loop_.view(i).clock_commanded;
  requests_.report(report);
}

void Simulation::arrive(const workload::TraceRow& row, Instant now) {
  const Tag tag = flights_.open(RequestId(arrivals_++));
  auto& flight = flights_[tag];
  Request request = flight.request;
  request.arrival = now;
  request.prompt_tokens = row.prompt_tokens;
  request.max_tokens = setup_.max_tokens;
  if (setup_.length_hint) {
    request.predicted_output_tokens = setup_.length_hint->predict(row.output_tokens, request.max_tokens);
  }
  clients_.sign(request);
  flight.request = request;
  flight.true_output_tokens = row.output_tokens;
  statistics_.add_arrivals();
  flight.served.prefill_start = Instant();
  scaler_.arrived(requests_.arrive(request, tag, now));
}

void Simulation::submit(Tag tag, InstanceId instance, bool kv_ready, Instant now) {
  const auto& flight = flights_[tag];
  auto& replica = engines_[index(instance)];
  if (!replica.can_ever_fit(flight.request.prompt_tokens, flight.true_output_tokens)) {
    leave(tag, kv_ready ? Fate::Failed : Fate::Rejected, "prompt and output can never fit in the KV cache", now);
    return;
  }
  if (ended_reports() && !kv_ready) {
    book_.start(flight.request, instance, setup_.instances[index(instance)].spec->role == Role::Prefill);
    if (flight.produced > 0) book_.prompt_done(flight.request.id);  // nobody will say that of it again
  }
  engine::Job job;
  job.tag = tag;
  job.id = flight.request.id;
  job.arrival = flight.request.arrival;
  job.prompt_tokens = flight.request.prompt_tokens;
  job.output_tokens = flight.true_output_tokens;
  job.kv_ready = kv_ready;
  job.produced = flight.produced;
  job.last_token = flight.last_token;
  if (!flight.handing) job.first_token = flight.served.first_token;
  replica.submit(job, now);
  kick(index(instance), now);
}

void Simulation::start(const Request& request, Tag tag, InstanceId instance, Instant now) {
  auto& flight = flights_[tag];
  flight.request.request_class = request.request_class;
  flight.prefill = instance;
  flight.decode = setup_.instances[index(instance)].spec->role == Role::Prefill ? kNoInstance : instance;
  const auto& trips = setup_.round_trips;
  const auto origin = static_cast<std::size_t>(flight.request.origin.value());
  const Span trip = origin < trips.size()
                        ? trips[origin][static_cast<std::size_t>(setup_.instances[index(instance)].spec->site.value())]
                        : Span();
  if (trip == Span()) return submit(tag, instance, false, now);
  agenda_.push({now + trip, EventClass::Travelled, 0, tag, flight.life, instance, Span()});
}

/// There and back at once: what the engine then does, it does by the client's clock, as if the first half were still to
/// come. Every time of the request is the client's.
void Simulation::travelled(const Event& event) {
  const auto& flight = flights_[event.tag];
  if (!flight.alive || flight.life != event.life) return;
  const auto there = index_.find(event.instance);
  if (!there || engines_[*there].dead()) {
    leave(event.tag, Fate::Failed, "the instance died", event.at);
  } else {
    submit(event.tag, event.instance, false, event.at);
  }
}

bool Simulation::preempt(const Request&, Tag tag, InstanceId instance, Instant now) {
  auto& flight = flights_[tag];
  if (setup_.instances[index(instance)].spec->role != Role::Colocated) return false;
  if (!engines_[index(instance)].cancel(tag, now)) return false;  // on its way, or finished
  flight.displaced = true;
  engines_.wake(index(instance));
  return true;
}

/// A request that was to be displaced is out of its engine: it is held again, to be computed again. False: it was its
/// last token that the engine had in hand.
bool Simulation::given_up(const engine::Event& event, Instant now) {
  auto& flight = flights_[event.tag];
  flight.displaced = false;
  if (event.output_tokens >= flight.true_output_tokens) return false;
  flight.produced = event.output_tokens;
  flight.last_token = event.last_token;
  ++flight.served.preemptions;
  const InstanceId instance = flight.decode;
  if (ended_reports()) book_.leave(flight.request.id);
  requests_.displaced(flight.request.id, event.output_tokens, now);
  perhaps_drained(instance, now);
  return true;
}

void Simulation::hand_over(const Request& request, Tag tag, InstanceId prefill, InstanceId decode, Instant now) {
  flights_[tag].decode = decode;
  if (ended_reports()) book_.hand_over(request, decode);
  Instant arrived = now;
  if (setup_.link.bandwidth_bytes_per_s > 0.0) {
    const double bytes = setup_.instances[index(prefill)].spec->llm.kv_bytes_per_token() * request.prompt_tokens;
    auto& free = link_free_[index(prefill)];
    free = std::max(free, now) + Span::from_seconds(bytes / setup_.link.bandwidth_bytes_per_s);
    arrived = free + setup_.link.latency;
  }
  agenda_.push({arrived, EventClass::Transfer, 0, tag, flights_[tag].life, decode, Span()});
}

void Simulation::transfer_done(const Event& event) {
  auto& flight = flights_[event.tag];
  if (!flight.alive || flight.life != event.life) return;  // its prefill instance died on the way
  const InstanceId prefill = flight.prefill;
  engines_[index(prefill)].release(event.tag, event.at);
  if (setup_.link.handoff_steps > 0.0) {
    flight.handing = true;
    Event then = event;
    then.event_class = EventClass::Handed;
    const Span step = engines_[index(event.instance)].step_length(event.at);
    then.at = event.at +
              Span::from_seconds(step.seconds() * setup_.link.handoff_steps * engine::handoff_wait(handed_over_++));
    agenda_.push(then);
  } else {
    handed(event);
  }
  kick(index(prefill), event.at);
}

/// The decode engine takes a request whose KV it has.
void Simulation::handed(const Event& event) {
  auto& flight = flights_[event.tag];
  if (!flight.alive || flight.life != event.life) return;
  if (engines_[index(event.instance)].dead()) {
    leave(event.tag, Fate::Failed, "the decode instance died", event.at);
  } else {
    submit(event.tag, event.instance, true, event.at);
  }
}

control::Served Simulation::refuse(const Request& request, Tag tag, control::Refusal, const char*, Instant now) {
  auto& flight = flights_[tag];
  flight.request.request_class = request.request_class;
  if (flight.served.first_token != Instant::never()) {  // one that was displaced may outlive its instance
    if (const auto i = index_.find(flight.prefill)) engines_[*i].release(tag, now);
  }
  return close(tag, now);
}

/// What it has had. Its place may be used again from now on.
control::Served Simulation::close(Tag tag, Instant now) {
  auto& flight = flights_[tag];
  if (ended_reports()) book_.leave(flight.request.id);
  flight.served.charge = ledger_.request_left(flight.request, flight.served.output_tokens, flight.account);
  last_left_ = now;
  flights_.close(tag);
  return flight.served;
}

void Simulation::leave(Tag tag, Fate fate, const char* reason, Instant now) {
  const RequestId id = flights_[tag].request.id;
  const InstanceId decode = flights_[tag].decode;
  requests_.leave(id, fate, reason, close(tag, now), now);
  if (decode != kNoInstance) perhaps_drained(decode, now);
}

// ---------------------------------------------------------------------------------------------- observing

Hold Simulation::step_starts(const StepReport& report) {
  const std::size_t i = index(report.instance);
  if (setup_.stretches) stretches_.step(i, report, engines_[i].effective_clock());
  return ended_reports() ? loop_.ahead(i, report) : loop_.step(i, report, report.start);
}

void Simulation::goes_idle(InstanceId instance, Instant at) {
  const std::size_t i = index(instance);
  stretches_.close(i, at);
  if (!ended_reports()) {
    loop_.step(i, engines_[i].report(at), at);
    return;
  }
  Event event{at + kHeartbeat, EventClass::Heartbeat, 0, 0, 0, instance, Span()};
  event.step = engines_[i].report(at).sequence;
  agenda_.push(event);
}

void Simulation::step_ended(const StepReport& report) {
  if (!ended_reports()) return;
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

/// What an engine says first, too.
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
    if (loop_.work(i, book_.of(instance), now)) watchdog_.run_begins(i);
  }
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
    case EventClass::Heartbeat:
      return heartbeat(event);
    case EventClass::Refitted:
      return refitted(event.at);
    case EventClass::NodeFault:
    case EventClass::NodeRecovery:
      return apply_node_fault(event);
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
  for (const auto& member : scaler_.members()) {
    if (!scaler_.enforced()) break;
    const bool accepts = requests_.shown(member.id).accepting;
    WATTLE_CHECK(accepts == (member.phase == journal::Phase::Serving),
                 "INV-9: exactly the serving instances accept requests");
    for (const auto& other : scaler_.members()) {
      if (other.id == member.id || other.node != member.node || member.gpus.empty()) continue;
      WATTLE_CHECK(std::ranges::find_first_of(member.gpus, other.gpus) == member.gpus.end() ||
                       loans_.between(member.id, other.id) || loans_.between(other.id, member.id),
                   "INV-10: a GPU is one instance's, but for what a re-shard lends");
    }
  }
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
  }
}

SimulationResult simulate(SimulationSetup setup) { return Simulation(std::move(setup)).run(); }

}  // namespace wattle::sim
