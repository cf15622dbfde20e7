#include "sim/simulation.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "carbon/ledger.h"
#include "journal/digest_sink.h"
#include "journal/tee.h"
#include "sim/event.h"
#include "sim/learning.h"
#include "sim/wake_tree.h"

namespace wattle::sim {

namespace {

using engine::Tag;

/// A model in the making.
struct Refitting {
  predict::OnlineLatency* learner;
  Result<std::shared_ptr<const LatencyModel>> model;
};

/// A request on its way, in a slab; its index is the engine's tag.
struct Flight {
  Outcome outcome;
  carbon::Account account;
  std::int32_t true_output_tokens = 0;
  std::uint32_t life = 0;  ///< counts reuses of the slab place, so that a late transfer finds its own flight or none
  bool alive = false;
  bool refused = false;
  bool handing = false;  ///< the decode engine is to send the first token, and has not
};

class Simulation final : public control::DispatchPort,
                         public control::ClockPort,
                         public control::FleetPort,
                         public engine::ReplicaObserver {
 public:
  explicit Simulation(SimulationSetup setup)
      : setup_(std::move(setup)),
        statistics_(setup_.slo),
        sink_({&digest_, &statistics_}),
        ledger_(setup_.instances.size(), *setup_.intensity),
        wakes_(setup_.instances.size()),
        link_free_(setup_.instances.size()),
        dispatcher_(views(), std::move(setup_.policies), setup_.seed, *this, sink_),
        scaler_(std::move(setup_.scaling.policy.policy), setup_.scaling.policy.mode, scaler_options(setup_.scaling),
                *this, sink_) {
    if (setup_.sink != nullptr) sink_.add(setup_.sink);
    replicas_.reserve(setup_.instances.size());
    throttles_.reserve(setup_.instances.size());
    for (std::size_t i = 0; i < setup_.instances.size(); ++i) {
      set_up(i, Instant());
      if (i < setup_.scaling.shape_of.size()) {
        scaler_.adopt(setup_.instances[i].facts.id, setup_.scaling.shape_of[i], Instant());
      }
    }
    for (const auto& fault : setup_.faults) {
      rare_.push({fault.at, EventClass::Fault, rare_sequence_++, 0, 0, fault.instance, fault.down});
    }
  }

  SimulationResult run();

  // control::DispatchPort
  void start(const Request& request, InstanceId instance, Instant now) override;
  void hand_over(const Request& request, InstanceId prefill, InstanceId decode, Instant now) override;
  void refuse(const Request& request, const char* reason, Instant now) override;
  // control::FleetPort
  InstanceId spawn(std::size_t shape, Instant now) override;
  void open(InstanceId instance, Instant now) override;
  void drain(InstanceId instance, Instant now) override;
  void stop(InstanceId instance, Instant now) override;
  // control::ClockPort
  void command(InstanceId instance, MegaHertz clock, Instant now) override {
    replicas_[index(instance)].command_clock(clock, now);
    wake(index(instance));
  }
  // engine::ReplicaObserver
  Hold step_starts(const StepReport& report) override;
  void goes_idle(InstanceId instance, Instant at) override;
  void power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                     std::int64_t prefill_tokens, MegaHertz clock) override;
  void decode_joined(InstanceId instance, Tag tag, Instant at) override {
    if (auto& flight = flights_[tag]; flight.handing) {
      flight.handing = false;
      flight.outcome.first_token = at;
    }
    ledger_.decode_joined(instance, flights_[tag].account, at);
  }
  void decode_left(InstanceId instance, Tag tag, Instant at) override {
    ledger_.decode_left(instance, flights_[tag].account, at);
  }
  void prefill_settled(InstanceId instance, Instant at, std::span<const engine::PrefillShare> shares) override;
  void gaps(std::int64_t first, std::int64_t increment, std::int64_t steps, std::int32_t requests) override {
    statistics_.add_gaps(first, increment, steps, requests);
  }

 private:
  /// What becomes of an instance's GPUs over its life.
  struct Life {
    Instant born;
    Instant gone = Instant::never();
    MegaHertz clock;
    Instant clock_since;
    double mhz_seconds = 0.0;
  };

  static std::size_t index(InstanceId id) { return static_cast<std::size_t>(id.value()); }
  static InstanceView view_of(const InstanceSetup& instance);
  std::vector<InstanceView> views() const;
  static control::AutoscalerOptions scaler_options(const ScalingSetup& scaling);
  void set_up(std::size_t i, Instant now);
  void bury(std::size_t i, Instant now);
  void perhaps_drained(InstanceId instance, Instant now);

  void wake(std::size_t i) {
    if (i < replicas_.size()) wakes_.set(i, replicas_[i].next_wake());
  }
  void step_ends(std::size_t i, Instant now);
  void kick(std::size_t i, Instant now);
  void refresh_view(std::size_t i, Instant now);
  void refresh_views(Instant now);
  void arrive(const workload::TraceRow& row, Instant now);
  void transfer_done(const Event& event);
  void handed(const Event& event);
  void strike(const Event& event);
  void advance_start(const Event& event);
  void sample(Instant now);
  void submit(Tag tag, InstanceId instance, bool kv_ready, Instant now);
  void leave(Tag tag, Fate fate, const char* reason, Instant now);
  void close_stretch(std::size_t i, Instant at);
  void measure(std::size_t i);
  void measured(std::size_t i, Instant now);
  void watch(std::size_t i);
  void expect_overrun(std::size_t i, std::int64_t from);
  void overrun(const Event& event);
  void beliefs_changed(const predict::OnlineLatency* learner, Instant now);
  void refitted(Instant now);
  void handle(const Event& event);
  void check(Instant now) const;
  Tag new_flight();
  Tag tag_of(RequestId id) const { return tags_.at(id.value()); }

  SimulationSetup setup_;
  journal::DigestSink digest_;
  journal::RunStatistics statistics_;
  journal::Tee sink_;
  carbon::Ledger ledger_;
  WakeTree wakes_;
  std::vector<Instant> link_free_;
  std::vector<Life> lives_;
  std::vector<journal::Stretch> stretches_;
  std::vector<Measuring> measured_;
  RandomStream sample_noise_{setup_.seed, "sim.sample_noise"};
  std::vector<Watched> watched_;
  std::deque<Refitting> refitting_;  ///< all take equally long, so the first begun is the first done
  control::Dispatcher dispatcher_;
  control::Autoscaler scaler_;
  std::vector<engine::Replica> replicas_;
  std::vector<control::Throttle> throttles_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> rare_;
  std::int64_t rare_sequence_ = 0;
  std::vector<Flight> flights_;
  std::vector<Tag> free_flights_;
  std::unordered_map<std::int64_t, Tag> tags_;
  std::vector<engine::Event> handled_;         ///< scratch
  std::vector<carbon::Ledger::Share> booked_;  ///< scratch
  std::int64_t arrivals_ = 0;
  std::int64_t events_ = 0;
  Instant last_left_;
};

InstanceView Simulation::view_of(const InstanceSetup& instance) {
  InstanceView view;
  view.id = instance.facts.id;
  view.role = instance.facts.role;
  view.tensor_parallel = instance.facts.tensor_parallel;
  view.weight = instance.weight;
  view.clock_commanded = instance.initial_clock;
  view.kv_capacity_tokens = instance.model->kv_blocks();
  return view;
}

std::vector<InstanceView> Simulation::views() const {
  std::vector<InstanceView> result;
  for (const auto& instance : setup_.instances) {
    result.push_back(view_of(instance));
    result.back().kv_capacity_tokens *= setup_.engine.block_size;
  }
  return result;
}

control::AutoscalerOptions Simulation::scaler_options(const ScalingSetup& scaling) {
  control::AutoscalerOptions options;
  options.period = scaling.period;
  for (const auto& shape : scaling.shapes) {
    options.shapes.push_back({shape.gpus, shape.max_load_per_s, scaling.load_time + scaling.warm_time});
  }
  return options;
}

/// The simulated half of setup_.instances[i].
void Simulation::set_up(std::size_t i, Instant now) {
  auto& instance = setup_.instances[i];
  engine::ReplicaOptions options;
  options.id = instance.facts.id;
  options.role = instance.facts.role;
  options.engine = setup_.engine;
  options.delays = setup_.clock_delays;
  options.initial_clock = instance.initial_clock;
  options.born = now;
  options.itl_slo = setup_.slo.itl.value_or(Span::max());
  options.fast_forward = setup_.fast_forward;
  lives_.emplace_back().born = now;
  stretches_.emplace_back();
  measured_.emplace_back();
  watched_.emplace_back();
  replicas_.emplace_back(*instance.model, options, *this);
  throttles_.emplace_back(view_of(instance), std::move(instance.frequency.policy), instance.frequency.mode,
                          instance.beliefs, *this, sink_, instance.overrun_slack);
}

// ---------------------------------------------------------------------------------------------- the loop

SimulationResult Simulation::run() {
  for (std::size_t i = 0; i < throttles_.size(); ++i) throttles_[i].idle(Instant());
  auto row = setup_.source->next();
  const bool sampling = setup_.sample_period > Span();
  Instant next_sample = sampling ? Instant() + setup_.sample_period : Instant::never();
  Instant now;

  for (;;) {
    const auto& counts = dispatcher_.counts();
    if (!row && counts.in_flight == 0 && counts.held == 0 && free_flights_.size() == flights_.size()) break;

    const Instant step = wakes_.at();
    const Instant rare = rare_.empty() ? Instant::never() : rare_.top().at;
    const Instant arrival = row ? row->arrival : Instant::never();
    const Instant plan = scaler_.next_tick();
    const Instant next = std::min({step, rare, plan, arrival, next_sample});
    // INV-7: whatever is unfinished has a future wake-up; only a fleet that is dead for good leaves requests behind.
    if (std::min({step, rare, arrival}) == Instant::never() && !scaler_.wants_more()) break;
    WATTLE_CHECK(next >= now, "INV-1: time never runs backwards");
    now = next;
    ++events_;
    if (step == now) {
      step_ends(wakes_.first(), now);
    } else if (rare == now) {
      const Event event = rare_.top();
      rare_.pop();
      handle(event);
    } else if (plan == now) {
      scaler_.tick(now);
    } else if (arrival == now) {
      arrive(*row, now);
      row = setup_.source->next();
    } else {
      sample(now);
      next_sample = next_sample + setup_.sample_period;
    }
    if (setup_.check_invariants) check(now);
  }
  const Instant end = std::max(last_left_, now);
  for (std::size_t i = 0; i < stretches_.size(); ++i) close_stretch(i, end);
  ledger_.close(end);

  SimulationResult result{statistics_.summary(), statistics_.curves(), dispatcher_.length()};
  auto& summary = result.summary;
  const auto totals = ledger_.fleet();
  summary.energy.total = totals.total.energy.joules();
  summary.energy.idle = totals.idle.energy.joules();
  summary.energy.busy = (totals.total.energy - totals.idle.energy).joules();
  summary.energy.prefill = totals.prefill.energy.joules();
  summary.energy.decode = totals.decode.energy.joules();
  summary.carbon = totals.total.carbon.grams();
  const double seconds = end.seconds();
  Span gpu_time;
  double mhz_seconds = 0.0;
  double live_seconds = 0.0;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const auto& life = lives_[i];
    const Span lived = std::min(life.gone, end) - life.born;
    gpu_time += lived * setup_.instances[i].facts.tensor_parallel;
    live_seconds += lived.seconds();
    mhz_seconds += life.mhz_seconds;
    if (life.gone == Instant::never()) mhz_seconds += life.clock.value() * (end - life.clock_since).seconds();
    summary.sim.iterations += replicas_[i].iterations();
  }
  summary.cost = Usd(setup_.gpu_price.value() * gpu_time.seconds() / 3600.0);
  if (seconds > 0.0)
    summary.mean_gpus = static_cast<double>(gpu_time.ns()) / static_cast<double>((end - Instant()).ns());
  if (live_seconds > 0.0) summary.clock_mean_mhz = mhz_seconds / live_seconds;
  for (const auto& throttle : throttles_) summary.overruns += throttle.overruns();
  std::vector<const predict::OnlineLatency*> learners;
  for (const auto& instance : setup_.instances) {
    if (instance.learner != nullptr && std::ranges::find(learners, instance.learner) == learners.end()) {
      learners.push_back(instance.learner);
    }
  }
  summary.prediction = prediction_of(learners);
  summary.sim.virtual_s = seconds;
  summary.sim.events = events_;
  summary.journal_digest = digest_.value();
  summary.derive();
  return result;
}

void Simulation::step_ends(std::size_t i, Instant now) {
  auto& replica = replicas_[i];
  replica.advance(now);
  // Handlers may submit to this or another replica, which adds no events; a hand-over frees nothing until it is done.
  handled_.swap(replica.events());
  for (const auto& event : handled_) {
    auto& flight = flights_[event.tag];
    auto& outcome = flight.outcome;
    if (event.kind == engine::EventKind::FirstToken) {
      outcome.first_token = event.at;
      outcome.prefill_start = event.prefill_start;
      refresh_view(i, now);
      dispatcher_.first_token(outcome.request.id, now);
      if (setup_.instances[i].facts.role == Role::Prefill && flight.true_output_tokens > 1) {
        outcome.output_tokens = 1;
        refresh_views(now);
        dispatcher_.prefill_done(outcome.request.id, now);
      }
      continue;
    }
    outcome.output_tokens = event.output_tokens;
    outcome.preemptions += event.preemptions;
    outcome.gaps_within_itl += event.gaps_within_itl;
    leave(event.tag, event.kind == engine::EventKind::Finished ? Fate::Finished : Fate::Cancelled, "", now);
  }
  handled_.clear();
  kick(i, now);
}

void Simulation::kick(std::size_t i, Instant now) {
  if (replicas_[i].wants_start()) {
    replicas_[i].start_step(now);
    measure(i);
    watch(i);
    refresh_view(i, now);  // the dispatcher may be in the midst of releasing held requests, and asks again
  }
  wake(i);
}

void Simulation::refresh_view(std::size_t i, Instant now) {
  StepReport report = replicas_[i].report(now);
  report.clock = throttles_[i].view().clock_commanded;
  dispatcher_.report(report);
}

void Simulation::refresh_views(Instant now) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) refresh_view(i, now);
}

Tag Simulation::new_flight() {
  if (free_flights_.empty()) {
    flights_.emplace_back();
    return static_cast<Tag>(flights_.size() - 1);
  }
  const Tag tag = free_flights_.back();
  free_flights_.pop_back();
  const std::uint32_t life = flights_[tag].life;
  flights_[tag] = Flight{};
  flights_[tag].life = life + 1;
  return tag;
}

void Simulation::arrive(const workload::TraceRow& row, Instant now) {
  const Tag tag = new_flight();
  auto& flight = flights_[tag];
  auto& request = flight.outcome.request;
  request.id = RequestId(arrivals_++);
  request.arrival = now;
  request.prompt_tokens = row.prompt_tokens;
  request.max_tokens = setup_.max_tokens;
  if (setup_.length_hint) {
    request.predicted_output_tokens = setup_.length_hint->predict(row.output_tokens, request.max_tokens);
  }
  flight.true_output_tokens = row.output_tokens;
  flight.alive = true;
  tags_.emplace(request.id.value(), tag);
  statistics_.add_arrivals();
  scaler_.arrived();
  refresh_views(now);
  dispatcher_.arrive(request, now);
}

void Simulation::submit(Tag tag, InstanceId instance, bool kv_ready, Instant now) {
  const auto& flight = flights_[tag];
  const auto& request = flight.outcome.request;
  auto& replica = replicas_[index(instance)];
  if (!replica.can_ever_fit(request.prompt_tokens, flight.true_output_tokens)) {
    leave(tag, kv_ready ? Fate::Failed : Fate::Rejected, "prompt and output can never fit in the KV cache", now);
    return;
  }
  engine::Job job;
  job.tag = tag;
  job.id = request.id;
  job.arrival = request.arrival;
  job.prompt_tokens = request.prompt_tokens;
  job.output_tokens = flight.true_output_tokens;
  job.kv_ready = kv_ready;
  if (!flight.handing) job.first_token = flight.outcome.first_token;
  replica.submit(job, now);
  kick(index(instance), now);
}

void Simulation::start(const Request& request, InstanceId instance, Instant now) {
  const Tag tag = tag_of(request.id);
  auto& outcome = flights_[tag].outcome;
  outcome.dispatched = now;
  outcome.prefill_instance = instance;
  outcome.decode_instance = setup_.instances[index(instance)].facts.role == Role::Prefill ? kNoInstance : instance;
  submit(tag, instance, false, now);
}

void Simulation::hand_over(const Request& request, InstanceId prefill, InstanceId decode, Instant now) {
  const Tag tag = tag_of(request.id);
  flights_[tag].outcome.decode_instance = decode;
  Instant arrived = now;
  if (setup_.link.bandwidth_bytes_per_s > 0.0) {
    const double bytes = setup_.instances[index(prefill)].kv_bytes_per_token * request.prompt_tokens;
    auto& free = link_free_[index(prefill)];
    free = std::max(free, now) + Span::from_seconds(bytes / setup_.link.bandwidth_bytes_per_s);
    arrived = free + setup_.link.latency;
  }
  rare_.push({arrived, EventClass::Transfer, rare_sequence_++, tag, flights_[tag].life, decode, Span()});
}

void Simulation::transfer_done(const Event& event) {
  auto& flight = flights_[event.tag];
  if (!flight.alive || flight.life != event.life) return;  // its prefill instance died on the way
  const InstanceId prefill = flight.outcome.prefill_instance;
  replicas_[index(prefill)].release(event.tag, event.at);
  if (setup_.link.handoff_steps > 0.0) {
    flight.handing = true;
    Event then = event;
    then.event_class = EventClass::Handed;
    const Span step = replicas_[index(event.instance)].step_length(event.at);
    then.at = event.at + Span::from_seconds(step.seconds() * setup_.link.handoff_steps);
    then.sequence = rare_sequence_++;
    rare_.push(then);
  } else {
    handed(event);
  }
  kick(index(prefill), event.at);
}

/// The decode engine takes a request whose KV it has.
void Simulation::handed(const Event& event) {
  auto& flight = flights_[event.tag];
  if (!flight.alive || flight.life != event.life) return;
  if (replicas_[index(event.instance)].dead()) {
    leave(event.tag, Fate::Failed, "the decode instance died", event.at);
  } else {
    submit(event.tag, event.instance, true, event.at);
  }
}

void Simulation::refuse(const Request& request, const char* reason, Instant now) {
  const Tag tag = tag_of(request.id);
  auto& flight = flights_[tag];
  flight.refused = true;
  const bool begun = flight.outcome.first_token != Instant::never();
  if (begun) replicas_[index(flight.outcome.prefill_instance)].release(tag, now);
  leave(tag, begun ? Fate::Failed : Fate::Rejected, reason, now);
}

void Simulation::leave(Tag tag, Fate fate, const char* reason, Instant now) {
  auto& flight = flights_[tag];
  flight.alive = false;
  auto& outcome = flight.outcome;
  outcome.fate = fate;
  outcome.reason = reason;
  outcome.left = now;
  const auto booked = flight.account.total();
  outcome.energy = booked.energy;
  outcome.carbon = booked.carbon.grams();
  last_left_ = now;
  sink_.outcome(outcome);
  tags_.erase(outcome.request.id.value());
  const Outcome copy = outcome;  // the dispatcher may start a held request, which may reuse this place
  const bool refused = flight.refused;
  free_flights_.push_back(tag);
  if (!refused) {
    refresh_views(now);
    dispatcher_.left(copy, now);
    if (copy.decode_instance != kNoInstance) perhaps_drained(copy.decode_instance, now);
  }
}

void Simulation::strike(const Event& event) {
  const std::size_t i = index(event.instance);
  if (i >= replicas_.size()) return;  // nothing of this id was ever started
  auto& replica = replicas_[i];
  if (event.event_class == EventClass::Recovery) {
    replica.revive(event.at);
    refresh_views(event.at);
    dispatcher_.set_accepting(event.instance, true, event.at);
    wake(i);
    return;
  }
  if (replica.dead()) return;
  dispatcher_.set_accepting(event.instance, false, event.at);
  measured_[i].cut_off();
  ++watched_[i].generation;
  const auto lost = replica.kill(event.at);
  wake(i);
  if (scaler_.enforced()) {
    close_stretch(i, event.at);
    bury(i, event.at);
    scaler_.died(event.instance, event.at);  // the fleet may grow: `replica` is no more
  } else if (event.down != Span::max()) {
    rare_.push({event.at + event.down, EventClass::Recovery, rare_sequence_++, 0, 0, event.instance, Span()});
  }
  for (const Tag tag : lost) leave(tag, Fate::Failed, "the instance died", event.at);
}

// ---------------------------------------------------------------------------------------------- the fleet

InstanceId Simulation::spawn(std::size_t shape, Instant now) {
  const std::size_t i = replicas_.size();
  const InstanceId id(static_cast<std::int32_t>(i));
  setup_.instances.push_back(setup_.scaling.shapes[shape].make(id));
  InstanceView view = view_of(setup_.instances.back());
  view.kv_capacity_tokens *= setup_.engine.block_size;
  view.accepting = false;
  const InstanceId given = dispatcher_.add_instance(view, now);
  WATTLE_CHECK(given == id && setup_.instances.back().facts.id == id, "driver and dispatcher number instances alike");
  sink_.joined(setup_.instances.back().facts);
  ledger_.add_instance(now);
  wakes_.grow(i + 1);
  link_free_.emplace_back();
  set_up(i, now);
  throttles_[i].idle(now);
  wake(i);
  rare_.push({now + setup_.scaling.load_time, EventClass::Loaded, rare_sequence_++, 0, 0, id, Span()});
  return id;
}

void Simulation::advance_start(const Event& event) {
  if (lives_[index(event.instance)].gone != Instant::never()) return;  // given up, or dead
  if (event.event_class == EventClass::Loaded) {
    scaler_.up(event.instance, event.at);
    return;
  }
  refresh_views(event.at);
  dispatcher_.set_accepting(event.instance, true, event.at);
  scaler_.serving(event.instance, event.at);
}

void Simulation::open(InstanceId instance, Instant now) {
  const auto& members = scaler_.members();
  if (std::ranges::find(members, instance, &control::Autoscaler::Member::id)->phase == journal::Phase::Warming) {
    rare_.push({now + setup_.scaling.warm_time, EventClass::Warm, rare_sequence_++, 0, 0, instance, Span()});
    return;
  }
  refresh_views(now);  // called back from draining
  dispatcher_.set_accepting(instance, true, now);
}

void Simulation::drain(InstanceId instance, Instant now) {
  refresh_views(now);
  dispatcher_.set_accepting(instance, false, now);
  perhaps_drained(instance, now);
}

void Simulation::perhaps_drained(InstanceId instance, Instant now) {
  const auto& view = dispatcher_.instances()[index(instance)];
  if (view.assigned_requests == 0 && !view.accepting) scaler_.drained(instance, now);
}

void Simulation::stop(InstanceId instance, Instant now) {
  const std::size_t i = index(instance);
  dispatcher_.set_accepting(instance, false, now);
  WATTLE_CHECK(replicas_[i].kill(now).empty(), "only an empty instance is stopped");
  close_stretch(i, now);
  bury(i, now);
  wake(i);
}

/// Its GPUs are somebody else's from now on.
void Simulation::bury(std::size_t i, Instant now) {
  auto& life = lives_[i];
  life.mhz_seconds += life.clock.value() * (now - life.clock_since).seconds();
  life.clock_since = now;
  life.gone = now;
}

// ---------------------------------------------------------------------------------------------- observing

Hold Simulation::step_starts(const StepReport& report) {
  const std::size_t i = index(report.instance);
  if (setup_.stretches) {
    auto& stretch = stretches_[i];
    const bool same = stretch.steps > 0 && report.shape.prefill_tokens == 0 && stretch.shape.prefill_tokens == 0 &&
                      report.shape.decode_requests == stretch.shape.decode_requests &&
                      stretch.clock == replicas_[i].effective_clock();
    if (!same) {
      close_stretch(i, report.start);
      stretch = {report.instance, report.start, report.start, report.shape, 0, replicas_[i].effective_clock()};
    }
    ++stretch.steps;
  }
  return throttles_[i].step(report, report.start);
}

void Simulation::goes_idle(InstanceId instance, Instant at) {
  close_stretch(index(instance), at);
  throttles_[index(instance)].idle(at);
}

void Simulation::close_stretch(std::size_t i, Instant at) {
  auto& stretch = stretches_[i];
  if (stretch.steps == 0) return;
  stretch.end = at;
  sink_.stretch(stretch);
  stretch.steps = 0;
}

void Simulation::power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                               std::int64_t prefill_tokens, MegaHertz clock) {
  ledger_.power_changes(instance, at, power, decode_requests, prefill_tokens);
  auto& life = lives_[index(instance)];
  if (clock != life.clock) {
    life.mhz_seconds += life.clock.value() * (at - life.clock_since).seconds();
    life.clock = clock;
    life.clock_since = at;
    measured_[index(instance)].clock_changed(at);
  }
}

// ---------------------------------------------------------------------------------------------- learning, watching

void Simulation::handle(const Event& event) {
  switch (event.event_class) {
    case EventClass::Transfer:
      return transfer_done(event);
    case EventClass::Handed:
      return handed(event);
    case EventClass::Loaded:
    case EventClass::Warm:
      return advance_start(event);
    case EventClass::Overrun:
      return overrun(event);
    case EventClass::Measured:
      return measured(index(event.instance), event.at);
    case EventClass::Refitted:
      return refitted(event.at);
    default:
      return strike(event);
  }
}

/// The first step of a run about which the policy was asked. Fast-forward begins a run wherever it is asked, so both
/// ways of running measure the same steps.
void Simulation::measure(std::size_t i) {
  if (setup_.instances[i].learner == nullptr || !throttles_[i].asked()) return;
  const auto run = replicas_[i].run();
  if (run.steps == 0) return;
  measured_[i].begin(run, replicas_[i].report(run.begin_of(0)).shape, replicas_[i].locked_clock());
  rare_.push({measured_[i].end(), EventClass::Measured, rare_sequence_++, 0, 0, setup_.instances[i].facts.id, Span()});
}

void Simulation::measured(std::size_t i, Instant now) {
  auto sample = measured_[i].take(now);
  if (!sample) return;
  if (setup_.sample_noise > 0.0) {
    const double factor = std::max(0.0, 1.0 + setup_.sample_noise * sample_noise_.normal());
    sample->duration = Span::from_seconds(sample->duration.seconds() * factor);
  }
  auto* learner = setup_.instances[i].learner;
  if (learner->add(*sample)) beliefs_changed(learner, now);
  if (!learner->refit_due()) return;
  refitting_.push_back({learner, learner->refitting()(learner->begin_refit())});
  rare_.push({now + setup_.refit_delay, EventClass::Refitted, rare_sequence_++, 0, 0, kNoInstance, Span()});
}

void Simulation::refitted(Instant now) {
  Refitting done = std::move(refitting_.front());
  refitting_.pop_front();
  if (done.learner->end_refit(std::move(done.model)).changed) beliefs_changed(done.learner, now);
}

void Simulation::beliefs_changed(const predict::OnlineLatency* learner, Instant now) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (setup_.instances[i].learner != learner) continue;
    throttles_[i].forget_hold();
    replicas_[i].interrupt(now);
    wake(i);
  }
}

void Simulation::watch(std::size_t i) {
  if (setup_.instances[i].overrun_slack == Span::max()) return;
  auto& w = watched_[i];
  ++w.generation;
  w.run = replicas_[i].run();
  if (w.run.steps == 0) return;
  const StepReport& report = replicas_[i].report(w.run.begin_of(0));
  w.shape = report.shape;
  w.sequence = report.sequence;
  w.clock = replicas_[i].locked_clock();
  expect_overrun(i, 0);
}

void Simulation::expect_overrun(std::size_t i, std::int64_t from) {
  const auto overrun = watched_[i].next(throttles_[i], from);
  if (!overrun) return;
  Event event{
      overrun->due, EventClass::Overrun, rare_sequence_++, 0, watched_[i].generation, setup_.instances[i].facts.id,
      Span()};
  event.step = overrun->step;
  rare_.push(event);
}

void Simulation::overrun(const Event& event) {
  const std::size_t i = index(event.instance);
  // The run may have been cut short since and another begun, or a slower clock have come into effect in a step before.
  const auto& w = watched_[i];
  if (event.life != w.generation || replicas_[i].run().steps == 0) return;
  if (replicas_[i].report(event.at).sequence != w.sequence + event.step) return;
  if (throttles_[i].overrun(event.at)) {
    replicas_[i].interrupt(event.at);
    wake(i);
  } else {
    expect_overrun(i, event.step + 1);
  }
}

void Simulation::prefill_settled(InstanceId instance, Instant at, std::span<const engine::PrefillShare> shares) {
  booked_.clear();
  for (const auto& share : shares) booked_.push_back({&flights_[share.tag].account, share.tokens});
  ledger_.settle_prefill(instance, at, booked_);
}

void Simulation::sample(Instant now) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    if (lives_[i].gone != Instant::never()) continue;
    auto& replica = replicas_[i];
    const StepReport report = replica.report(now);
    sink_.sample({now, report.instance, replica.power(), replica.effective_clock(), report.shape.decode_requests,
                  report.shape.prefill_tokens, report.waiting_requests, report.kv_tokens});
  }
}

// ---------------------------------------------------------------------------------------------- checking

void Simulation::check(Instant now) const {
  std::int64_t held_by_engines = 0;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const auto& replica = replicas_[i];
    replica.check_invariants();
    held_by_engines += replica.requests_held();
    if (lives_[i].gone == Instant::never()) continue;
    WATTLE_CHECK(replica.requests_held() == 0 && replica.power() == Milliwatts(0) &&
                     ledger_.power(InstanceId(static_cast<std::int32_t>(i))) == Milliwatts(0),
                 "INV-9: an instance that is gone holds nothing and draws nothing");
  }
  for (const auto& member : scaler_.members()) {
    if (!scaler_.enforced()) break;
    const bool accepts = dispatcher_.instances()[index(member.id)].accepting;
    WATTLE_CHECK(accepts == (member.phase == journal::Phase::Serving),
                 "INV-9: exactly the serving instances accept requests");
  }
  const auto& counts = dispatcher_.counts();
  const auto live = static_cast<std::int64_t>(flights_.size() - free_flights_.size());
  WATTLE_CHECK(live == counts.in_flight + counts.held, "INV-2: the dispatcher and the driver count the same requests");
  WATTLE_CHECK(arrivals_ == statistics_.left() + live, "INV-2: arrived = left + in flight");
  WATTLE_CHECK(held_by_engines <= live + static_cast<std::int64_t>(rare_.size()),
               "INV-2: no engine holds a request nobody knows");
  const auto totals = ledger_.fleet();
  WATTLE_CHECK(totals.total == totals.prefill + totals.decode + totals.idle + totals.residue,
               "INV-5: the parts of energy and carbon sum to the whole, exactly");
  for (const auto& flight : flights_) {
    if (!flight.alive) continue;
    WATTLE_CHECK(flight.outcome.first_token == Instant::never() || flight.outcome.first_token <= now,
                 "INV-8: no token before its prefill has ended");
  }
}

}  // namespace

SimulationResult simulate(SimulationSetup setup) { return Simulation(std::move(setup)).run(); }

}  // namespace wattle::sim
