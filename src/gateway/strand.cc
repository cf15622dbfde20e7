#include "gateway/strand.h"

#include <algorithm>
#include <future>

#include "control/next_step.h"
#include "net/clock.h"
#include "net/faults.h"

namespace wattle::gateway {

namespace {
constexpr Span kSamplePeriod = Span::s(1);
constexpr Span kGaugesBelieved = Span::s(1);  ///< older ones say nothing of now
}  // namespace

ControlStrand::ControlStrand(control::DispatchPolicies policies, std::uint64_t seed,
                             const control::FleetLoopOptions& options, const WatchOptions& watch, journal::Sink& sink)
    : requests_({}, std::move(policies), seed, options, *this, sink),
      sink_(sink),
      watch_options_(watch),
      ledger_(watch.ledger),
      watch_(watch.telemetry, *this, sink) {}

void ControlStrand::arrive(const Request& request, std::shared_ptr<Stream> stream, carbon::ModelId model) {
  Event event;
  event.kind = Kind::Arrive;
  event.request = request;
  event.model = model;
  event.stream = std::move(stream);
  post(std::move(event));
}

void ControlStrand::first_token(RequestId id) {
  Event event;
  event.kind = Kind::FirstToken;
  event.id = id;
  post(std::move(event));
}

void ControlStrand::unseen(RequestId id) {
  Event event;
  event.kind = Kind::Unseen;
  event.id = id;
  post(std::move(event));
}

void ControlStrand::report(const StepReport& report, Instant received) {
  Event event;
  event.kind = Kind::Report;
  event.report = report;
  event.received = received;
  post(std::move(event));
}

void ControlStrand::reading(const EngineReading& reading) {
  Event event;
  event.kind = Kind::Reading;
  event.reading = reading;
  post(std::move(event));
}

void ControlStrand::decided(const journal::DecisionRecord& record) {
  run([this, record](control::FleetLoop&, Instant) { sink_.decision(record); });
}

void ControlStrand::learn(std::vector<MeasuredStep> steps) {
  run([this, taken = std::move(steps)](control::FleetLoop&, Instant now) {
    for (const MeasuredStep& m : taken) {
      if (const auto i = index_.find(m.instance)) watch_.learn(*i, m.step, now);
    }
    put_refits_to_use(now);
  });
}

void ControlStrand::refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant) {
  if (!refits_) refits_ = std::make_unique<control::RefitThread>();
  refits_->post(learner, std::move(samples));
}

void ControlStrand::put_refits_to_use(Instant now) {
  if (!refits_) return;
  for (auto& done : refits_->take()) refits_->discard(watch_.refitted(*done.learner, std::move(done.model), now));
}

ControlStrand::Learnt ControlStrand::learnt() const {
  Learnt all;
  for (const auto* learner : watch_.learners()) {
    all.samples += learner->counts().samples;
    all.adopted += learner->counts().adopted;
  }
  return all;
}

void ControlStrand::tick() {
  Event event;
  event.kind = Kind::Tick;
  post(std::move(event));
}

void ControlStrand::prefill_done(RequestId id) {
  Event event;
  event.kind = Kind::PrefillDone;
  event.id = id;
  post(std::move(event));
}

void ControlStrand::withdrawn(RequestId id, bool taken) {
  run([this, id, taken](control::FleetLoop& core, Instant now) {
    if (taken) never_sent(id, now);
    core.withdrawn(id, taken, now);
  });
}

void ControlStrand::bounced(RequestId id) {
  run([this, id](control::FleetLoop& core, Instant now) {
    never_sent(id, now);
    core.bounced(id, now);
  });
}

/// The records are as if its engine had not been chosen.
void ControlStrand::never_sent(RequestId id, Instant now) {
  book_.leave(id);
  if (ledger_ != nullptr) ledger_->withdrawn(id, now);
}

void ControlStrand::leave(RequestId id, Fate fate, const char* reason, const TokenTally& tally, std::string name,
                          LiveLedger::Charged charged) {
  Event event;
  event.kind = Kind::Leave;
  event.id = id;
  event.fate = fate;
  event.reason = reason;
  event.tally = tally;
  event.name = std::move(name);
  event.charged = std::move(charged);
  post(std::move(event));
}

void ControlStrand::run(std::function<void(control::FleetLoop&, Instant)> task) {
  Event event;
  event.task = std::move(task);
  post(std::move(event));
}

void ControlStrand::run_and_wait(std::function<void(control::FleetLoop&, Instant)> task) {
  auto done = std::make_shared<std::promise<void>>();
  auto finished = done->get_future();
  run([done, inner = std::move(task)](control::FleetLoop& core, Instant now) {
    try {
      inner(core, now);
      done->set_value();
    } catch (...) {  // belongs to the caller that waits
      done->set_exception(std::current_exception());
    }
  });
  finished.get();
}

void ControlStrand::post(Event event) {
  std::vector<Delivery> deliveries;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(event));
    if (busy_) return;  // the thread in there takes it along
    busy_ = true;
    batch_.swap(queue_);
  }
  for (;;) {
    for (Event& e : batch_) {
      try {
        handle(e);
      } catch (...) {  // the strand must never stay taken
        net::count_fault("the control strand");
      }
    }
    std::ranges::move(outgoing_, std::back_inserter(deliveries));
    outgoing_.clear();
    batch_.clear();
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) {
      busy_ = false;
      break;
    }
    batch_.swap(queue_);
  }
  // Sending bytes takes far longer than deciding: not while others wait for the strand.
  for (const Delivery& delivery : deliveries) deliver(delivery);
}

void ControlStrand::handle(Event& event) {
  const Instant now = last_now_ = std::max(last_now_, net::steady_now());
  switch (event.kind) {
    case Kind::Arrive:
      if (ledger_ != nullptr && event.model != carbon::ModelId()) ledger_->asked_for(event.request.id, event.model);
      count(requests_.arrive(event.request, seat(std::move(event.stream)), now, event.model.value()));
      break;
    case Kind::FirstToken:
      if (ledger_ != nullptr) ledger_->first_token(event.id, now);
      book_.prompt_done(event.id);
      requests_.first_token(event.id, now);
      break;
    case Kind::Unseen:
      if (ledger_ != nullptr) ledger_->unseen(event.id, now);
      break;
    case Kind::PrefillDone:
      if (ledger_ != nullptr) ledger_->prefilled(event.id, now);
      book_.prompt_done(event.id);
      requests_.prefill_done(event.id, now);
      break;
    case Kind::Report:
      take(event.report, event.received, now);
      break;
    case Kind::Reading:
      take(event.reading, now);
      break;
    case Kind::Tick:
      watch(now);
      put_refits_to_use(now);
      requests_.tick(now);
      if (ledger_ != nullptr) ledger_->tick(now);
      break;
    case Kind::Leave:
      book_.leave(event.id);
      if (ledger_ != nullptr) {
        ledger_->leaving(event.id, {event.tally.counted(), std::move(event.name), std::move(event.charged)});
      }
      if (const auto tag = requests_.leave(event.id, event.fate, event.reason, event.tally.served(), now)) unseat(*tag);
      break;
    case Kind::Run:
      event.task(requests_, now);
      break;
  }
  if (book_.changed()) tell_work(now);
}

void ControlStrand::count(ClassId arrived) {
  const auto c = static_cast<std::size_t>(std::max(arrived.value(), 0));
  if (c >= arrived_.size()) arrived_.resize(c + 1);
  ++arrived_[c];
}

// ---- what the engines are doing ------------------------------------------------------------------------------------

InstanceId ControlStrand::add_worker(const InstanceView& view, std::shared_ptr<const net::Endpoint> endpoint,
                                     std::optional<std::uint16_t> bootstrap_port, control::LoopInstance clock,
                                     bool step_reports, control::ModelMask has, Instant now) {
  const InstanceId id = requests_.add_instance(view, now, has);
  clock.view = view;
  clock.view.id = id;
  watch_.add(std::move(clock));
  if (ledger_ != nullptr) ledger_->add_instance(view.spec->tensor_parallel, view.spec->site, now);
  index_.add(id);
  auto worker = std::make_shared<const Worker>(Worker{id, view.spec->role, std::move(endpoint), bootstrap_port});
  places_.push_back({std::move(worker), step_reports, {}, {}});
  bound(requests_.shown(id), now);
  return id;
}

bool ControlStrand::remove_worker(InstanceId id, Instant now) {
  if (!index_.find(id)) return false;
  requests_.remove_instance(id, now);
  if (ledger_ != nullptr) ledger_->gone(id, now);
  watch_.remove(id);
  book_.forget(id);
  erase_at(places_, index_.remove(id));
  return true;
}

std::size_t ControlStrand::instances_kept() const {
  return std::max({index_.size(), places_.size(), watch_.size(), book_.instances(), requests_.instances().size(),
                   ledger_ == nullptr ? 0 : ledger_->instances_kept()});
}

void ControlStrand::move(InstanceId id, std::shared_ptr<const net::Endpoint> endpoint) {
  auto& worker = places_[index_.at(id)].worker;
  worker = std::make_shared<const Worker>(Worker{id, worker->role, std::move(endpoint), worker->bootstrap_port});
}

ViewSource ControlStrand::source_at(std::size_t i, Instant now) const {
  const Instant last = watch_.last_report(i);
  const bool fresh = last != Instant() && now - last < watch_options_.telemetry.lost_after;
  return places_[i].step_reports && fresh ? ViewSource::StepReports : ViewSource::Streams;
}

void ControlStrand::take(const StepReport& report, Instant received, Instant now) {
  received_ = received;
  const auto i = index_.find(report.instance);
  if (i) watch_.note(*i, book_.of(report.instance));
  if (watch_.report(report, now)) {
    places_[*i].engine_clock = report.clock;
    show(*i, watch_.ends(*i) ? watch_.view(*i).step : report, now);
  }
  received_ = Instant::never();
}

/// What an instance does by its own reports, to those who read it. Of ended steps: what is to be expected after them.
void ControlStrand::show(std::size_t i, StepReport shown, Instant now) {
  shown.instance = index_[i];
  shown.start = now;
  // Commands that are on their way count: what was decided here is newer than what the engine reports.
  shown.clock = watch_options_.clocks != nullptr ? watch_.view(i).clock_commanded : places_[i].engine_clock;
  requests_.report(shown);
  if (ledger_ != nullptr) ledger_->step(shown.instance, shown.shape.prefill_tokens, now);
}

void ControlStrand::tell_work(Instant now) {
  for (const InstanceId instance : book_.take_changed()) tell_work(index_.at(instance), now);
}

namespace {
/// Our own records, with the tokens that have come.
control::InstanceWork own_work(control::InstanceWork work, const StreamCounts& streams) {
  const std::int64_t context = streams.kv_tokens.load(std::memory_order_relaxed);
  work.output_tokens = std::max<std::int64_t>(0, context - (work.context_tokens - work.prompt_tokens));
  return work;
}
}  // namespace

/// Where no step report is heard: ours, and what the engine's gauges had beyond it, for as long as they are believed.
control::InstanceWork ControlStrand::seen_work(std::size_t i, Instant now) const {
  const Place& place = places_[i];
  control::InstanceWork work = own_work(book_.of(index_[i]), *place.worker->streams);
  if (!gauged(index_[i], now)) return work;
  work.requests += place.others.requests;
  work.prompts += place.others.prompts;
  work.output_tokens += place.others.output_tokens;
  return work;
}

void ControlStrand::gauges(InstanceId id, const LoadGauges& gauges, Instant read) {
  run([this, id, gauges, read](control::FleetLoop&, Instant now) {
    const auto i = index_.find(id);
    if (!i || watch_.hears_steps(*i)) return;
    Place& place = places_[*i];
    const control::InstanceWork own = own_work(book_.of(id), *place.worker->streams);
    const control::InstanceWork before = place.others;
    place.gauges = gauges;
    place.gauges_at = read;
    place.others = {};
    const std::int32_t running = gauges.running.value_or(own.requests);
    const std::int32_t waiting = gauges.waiting.value_or(0);
    place.others.requests = std::max(0, running + waiting - own.requests);
    place.others.prompts = std::min(place.others.requests, std::max(0, waiting - own.prompts));
    const StepReport said = control::seen_by_gauges(gauges, *watch_.view(*i).spec, now);
    const std::int64_t ours = own.context_tokens - own.prompt_tokens + own.output_tokens;
    // A cache that nobody runs in keeps prefixes.
    if (place.others.requests > 0) place.others.output_tokens = std::max<std::int64_t>(0, said.kv_tokens - ours);
    if (place.others != before) tell_work(*i, now);
  });
}

std::optional<ControlStrand::Gauged> ControlStrand::gauged(InstanceId id, Instant now) const {
  const Place& place = places_[index_.at(id)];
  if (place.gauges_at == Instant::never() || now - place.gauges_at > kGaugesBelieved) return std::nullopt;
  return Gauged{place.gauges, place.gauges_at};
}

void ControlStrand::tell_work(std::size_t i, Instant now) {
  const InstanceId instance = index_[i];
  const bool hears_steps = watch_.hears_steps(i);
  if (hears_steps && !watch_.ends(i)) return;  // its reports say it themselves
  const control::InstanceWork work = hears_steps ? book_.of(instance) : seen_work(i, now);
  if (watch_.work(i, work, now) && hears_steps) show(i, watch_.view(i).step, now);
  if (watch_options_.work) watch_options_.work(instance, work);
}

void ControlStrand::take(const EngineReading& reading, Instant now) {
  if (ledger_ == nullptr) return;
  ledger_->reading(reading);
  const auto i = index_.find(reading.instance);
  if (!i || now < places_[*i].sampled + kSamplePeriod) return;
  places_[*i].sampled = now;
  const StepReport& step = requests_.shown(reading.instance).step;
  sink_.sample({reading.at, reading.instance, reading.power, reading.clock, step.shape.decode_requests,
                step.shape.prefill_tokens, step.waiting_requests, step.kv_tokens,
                ledger_->ledger().totals(reading.instance).total.energy});
}

void ControlStrand::look(Instant now) {
  for (std::size_t i = 0; i < index_.size(); ++i) refresh(index_[i], now);
}

void ControlStrand::watch(Instant now) {
  watch_.tick(now);
  look(now);
  for (std::size_t i = 0; i < index_.size(); ++i) {
    const InstanceId id = index_[i];
    // Answers grow, and whoever decides a clock by streams takes silence for loss.
    const bool busy = requests_.shown(id).assigned_requests > 0 || places_[i].others.requests > 0;
    if (!watch_.hears_steps(i) && busy) tell_work(i, now);
    if (!gauged(id, now)) places_[i].others = {};
    if (!places_[i].step_reports || watch_.last_report(i) == Instant() || source(id, now) == ViewSource::StepReports)
      continue;
    // An engine that still owes us tokens is not idle, whatever it said last.
    const InstanceView& view = requests_.shown(id);
    if (view.assigned_requests > 0) requests_.lost(id);
  }
}

void ControlStrand::refresh(InstanceId instance, Instant now) {
  const std::size_t i = index_.at(instance);
  if (source_at(i, now) == ViewSource::Streams) infer(i, now);
}

void ControlStrand::infer(std::size_t i, Instant now) {
  const StreamCounts& streams = *places_[i].worker->streams;
  const InstanceView& view = requests_.shown(index_[i]);
  const bool lost = view.telemetry == Telemetry::Lost;
  StepReport report = view.step;
  report.instance = index_[i];
  report.start = now;
  report.shape = {};
  report.shape.decode_requests = std::max(0, streams.decoding.load(std::memory_order_relaxed));
  report.shape.decode_kv_tokens = std::max<std::int64_t>(0, streams.kv_tokens.load(std::memory_order_relaxed));
  report.waiting_requests = std::max(0, streams.waiting.load(std::memory_order_relaxed));
  report.waiting_prompt_tokens =
      std::max<std::int64_t>(0, streams.waiting_prompt_tokens.load(std::memory_order_relaxed));
  if (gauged(index_[i], now)) {
    const control::InstanceWork& others = places_[i].others;
    report.shape.decode_requests += others.requests - others.prompts;
    report.shape.decode_kv_tokens += others.output_tokens;
    report.waiting_requests += others.prompts;
  }
  report.oldest_scheduled_arrival = Instant::never();
  report.kv_tokens = report.shape.decode_kv_tokens;
  report.clock = MegaHertz{0};
  requests_.report(report);
  if (lost && view.assigned_requests > 0) requests_.lost(report.instance);
}

void ControlStrand::command(InstanceId instance, MegaHertz clock, Instant now) {
  if (watch_options_.clocks == nullptr) return;
  watch_options_.clocks->command(instance, clock, now);
  if (received_ != Instant::never()) report_to_command_ns_.add((net::steady_now() - received_).ns());
}

control::Tag ControlStrand::seat(std::shared_ptr<Stream> stream) {
  if (free_tags_.empty()) {
    streams_.push_back(std::move(stream));
    return static_cast<control::Tag>(streams_.size() - 1);
  }
  const control::Tag tag = free_tags_.back();
  free_tags_.pop_back();
  streams_[tag] = std::move(stream);
  return tag;
}

void ControlStrand::unseat(control::Tag tag) {
  streams_[tag] = nullptr;
  free_tags_.push_back(tag);
}

void ControlStrand::say(Word word, control::Tag tag, InstanceId instance, control::Refusal refusal,
                        const char* reason) {
  outgoing_.push_back({word, streams_[tag], instance == kNoInstance ? nullptr : worker(instance), refusal, reason, 0});
}

namespace {

/// By the queue policy, in milliseconds of its keys; where there is none by the tenant's priority.
std::int64_t urgency_of(const Request& request) {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  return request.order != 0 ? request.order / kNsPerMs : -std::int64_t{request.priority};
}

}  // namespace

void ControlStrand::start(const Request& request, control::Tag tag, InstanceId instance, Instant now) {
  book_.start(request, instance, worker(instance)->role == Role::Prefill);
  if (ledger_ != nullptr) ledger_->started(request, instance, now);
  say(Word::Start, tag, instance, control::Refusal::Busy, "");
  outgoing_.back().urgency = urgency_of(request);
}
void ControlStrand::hand_over(const Request& request, control::Tag tag, InstanceId, InstanceId decode, Instant) {
  book_.hand_over(request, decode);
  if (ledger_ != nullptr) ledger_->handed_over(request.id, decode);
  say(Word::HandOver, tag, decode, control::Refusal::Busy, "");
}
/// Engines allow no more: what they have answered goes on to its end.
bool ControlStrand::preempt(const Request&, control::Tag tag, InstanceId instance, bool answered, Instant) {
  if (answered || worker(instance)->role != Role::Colocated) return false;
  say(Word::Withdraw, tag, kNoInstance, control::Refusal::Busy, "");
  return true;
}
void ControlStrand::withdraw(const Request&, control::Tag tag, InstanceId, Instant) {
  say(Word::Withdraw, tag, kNoInstance, control::Refusal::Busy, "");
}

/// Where clocks are decided here; agents with recipes of their own keep to those.
void ControlStrand::boost(InstanceId instance, Instant until, Instant now) {
  watch_.boost(index_.at(instance), until, now);
}

control::Served ControlStrand::refuse(const Request& request, control::Tag tag, control::Refusal refusal,
                                      const char* reason, Instant) {
  book_.leave(request.id);
  say(Word::Refuse, tag, kNoInstance, refusal, reason);
  unseat(tag);
  return {};
}

void ControlStrand::deliver(const Delivery& delivery) {
  const auto speak = [](const Delivery& d) {
    switch (d.word) {
      case Word::Start:
        d.stream->on_start(d.worker, d.urgency);
        break;
      case Word::HandOver:
        d.stream->on_hand_over(d.worker);
        break;
      case Word::Refuse:
        d.stream->on_refuse(d.refusal, d.reason);
        break;
      case Word::Withdraw:
        d.stream->on_withdraw();
        break;
    }
  };
  if (delivery.stream->loop().in_this_thread()) {
    speak(delivery);
  } else {
    delivery.stream->loop().post([delivery, speak] { speak(delivery); });
  }
}

}  // namespace wattle::gateway
