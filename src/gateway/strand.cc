#include "gateway/strand.h"

#include <algorithm>
#include <future>

#include "gateway/request_end.h"
#include "net/clock.h"
#include "net/faults.h"

namespace wattle::gateway {

ControlStrand::ControlStrand(control::DispatchPolicies policies, std::uint64_t seed,
                             const control::FleetLoopOptions& options, const WatchOptions& watch, journal::Sink& sink)
    : requests_({}, std::move(policies), seed, options, *this, sink),
      sink_(sink),
      watch_options_(watch),
      ledger_(watch.ledger),
      watch_(watch.telemetry, *this, sink) {}

void ControlStrand::arrive(const Request& request, std::shared_ptr<Stream> stream, carbon::ModelId model) {
  post_soon({Kind::Arrive, request.id, Arriving{request, model, std::move(stream)}});
}

void ControlStrand::first_token(RequestId id) { post_soon({Kind::FirstToken, id}); }

void ControlStrand::unseen(RequestId id, bool decodes) { post_soon({decodes ? Kind::Whole : Kind::Unseen, id}); }

void ControlStrand::report(const StepReport& report, Instant received) {
  post({Kind::Report, RequestId{-1}, Reported{report, received}});
}

void ControlStrand::reading(const EngineReading& reading) { post({Kind::Reading, RequestId{-1}, reading}); }

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

void ControlStrand::tick() { post({Kind::Tick}); }

void ControlStrand::prefill_done(RequestId id) { post_soon({Kind::PrefillDone, id}); }

void ControlStrand::withdrawn(RequestId id, bool taken) {
  run([this, id, taken](control::FleetLoop& core, Instant now) {
    if (taken) never_sent(id, now);
    core.withdrawn(id, taken, now);
  });
}

void ControlStrand::bounced(RequestId id, InstanceId from, bool sent) {
  run([this, id, from, sent](control::FleetLoop& core, Instant now) {
    if (sent) {
      book_.leave(id);
      if (ledger_ != nullptr) ledger_->lost(id, now);
    } else {
      never_sent(id, now);
    }
    core.bounced(id, from, now);
  });
}

/// The records are as if its engine had not been chosen.
void ControlStrand::never_sent(RequestId id, Instant now) {
  book_.leave(id);
  if (ledger_ != nullptr) ledger_->withdrawn(id, now);
}

void ControlStrand::leave(RequestId id, Fate fate, const char* reason, const control::Served& served,
                          const TokenTally::Counted& counted, std::string name, LiveLedger::Charged charged) {
  post_soon({Kind::Leave, id, Leaving{fate, reason, served, counted, std::move(name), std::move(charged)}});
}

void ControlStrand::run(std::function<void(control::FleetLoop&, Instant)> task) {
  post({Kind::Run, RequestId{-1}, std::move(task)});
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

struct ControlStrand::Turn final : net::Deferred {
  explicit Turn(ControlStrand& its_strand) : strand(its_strand) {}
  void on_turn_end() override { strand.enter(events); }

  ControlStrand& strand;
  std::vector<Event> events;  ///< none: it is not called at the end of this turn
};

namespace {
/// A thread that serves several strands in turn makes one of each.
thread_local std::shared_ptr<net::Deferred> this_turn;
}  // namespace

void ControlStrand::post_soon(Event&& event) {
  net::Loop* const loop = net::Loop::current();
  if (loop == nullptr) return post(std::move(event));
  auto* turn = static_cast<Turn*>(this_turn.get());
  if (turn == nullptr || &turn->strand != this) {
    if (turn != nullptr) turn->on_turn_end();
    this_turn = std::make_shared<Turn>(*this);
    turn = static_cast<Turn*>(this_turn.get());
  }
  // Who has read the end of an answer finds it booked.
  if (turn->events.empty()) loop->before_sending(this_turn);
  turn->events.push_back(std::move(event));
}

void ControlStrand::post(Event&& event) {
  auto* const turn = static_cast<Turn*>(this_turn.get());
  if (turn != nullptr && &turn->strand == this && !turn->events.empty()) {
    turn->events.push_back(std::move(event));
    return enter(turn->events);
  }
  std::vector<Event> one;
  one.push_back(std::move(event));
  enter(one);
}

/// Leaves `events` empty.
void ControlStrand::enter(std::vector<Event>& events) {
  if (events.empty()) return;
  std::vector<Delivery> deliveries;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) {
      queue_.swap(events);
    } else {
      std::ranges::move(events, std::back_inserter(queue_));
    }
    if (busy_) {  // the thread in there takes them along
      events.clear();
      return;
    }
    busy_ = true;
    batch_.swap(queue_);
  }
  events.clear();
  for (;;) {
    Instant now = net::steady_now();  // of all in one batch, but of those behind a task, which may be long
    for (Event& e : batch_) {
      try {
        handle(e, now);
      } catch (...) {  // the strand must never stay taken
        net::count_fault("the control strand", e.id == RequestId{-1} ? std::string() : request_name(e.id));
      }
      if (e.kind == Kind::Run) now = net::steady_now();
    }
    tell_work(last_now_);
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

void ControlStrand::handle(Event& event, Instant at) {
  const Instant now = last_now_ = std::max(last_now_, at);
  switch (event.kind) {
    case Kind::Arrive: {
      auto& [request, model, stream] = std::get<Arriving>(event.more);
      if (ledger_ != nullptr && model != carbon::ModelId()) ledger_->asked_for(event.id, model);
      count(requests_.arrive(request, seat(std::move(stream)), now, model.value()));
      break;
    }
    case Kind::FirstToken:
      if (ledger_ != nullptr) ledger_->first_token(event.id, now);
      book_.prompt_done(event.id, now);
      requests_.first_token(event.id, now);
      break;
    case Kind::Whole:
      // Step reports show its steps; without them its prompt would seem to wait for as long as it decodes.
      if (const auto i = index_.find(book_.at(event.id)); i && !watch_.hears_steps(*i)) book_.unseen(event.id);
      [[fallthrough]];
    case Kind::Unseen:
      if (ledger_ != nullptr) ledger_->unseen(event.id, now);
      break;
    case Kind::PrefillDone:
      if (ledger_ != nullptr) ledger_->prefilled(event.id, now);
      book_.prompt_done(event.id, now);
      requests_.prefill_done(event.id, now);
      break;
    case Kind::Report: {
      const auto& [report, received] = std::get<Reported>(event.more);
      take(report, received, now);
      break;
    }
    case Kind::Reading:
      take(std::get<EngineReading>(event.more), now);
      break;
    case Kind::Tick:
      watch(now);
      put_refits_to_use(now);
      requests_.tick(now);
      if (ledger_ != nullptr) ledger_->tick(now);
      break;
    case Kind::Leave: {
      auto& [fate, reason, served, counted, name, charged] = std::get<Leaving>(event.more);
      if (fate == Fate::Finished)
        book_.answered(event.id, served.output_tokens, now);
      else
        book_.leave(event.id);
      if (ledger_ != nullptr) {
        ledger_->leaving(event.id, {counted, std::move(name), std::move(charged), !requests_.has(event.id)});
      }
      if (const auto tag = requests_.leave(event.id, fate, reason, served, now)) unseat(*tag);
      break;
    }
    case Kind::Run:
      std::get<Task>(event.more)(requests_, now);
      break;
  }
}

void ControlStrand::count(ClassId arrived) {
  const auto c = static_cast<std::size_t>(std::max(arrived.value(), 0));
  if (c >= arrived_.size()) arrived_.resize(c + 1);
  ++arrived_[c];
}

// ---- what the engines are doing ------------------------------------------------------------------------------------

InstanceId ControlStrand::add_worker(const InstanceView& view, std::shared_ptr<const net::Endpoint> endpoint,
                                     std::optional<std::uint16_t> bootstrap_port, control::LoopInstance clock,
                                     Says says, control::ModelMask has, Instant now) {
  const InstanceId id = requests_.add_instance(view, now, has);
  clock.view = view;
  clock.view.id = id;
  watch_.add(std::move(clock));
  if (ledger_ != nullptr) ledger_->add_instance(view.spec->tensor_parallel, view.spec->site, now);
  index_.add(id);
  auto worker = std::make_shared<const Worker>(
      Worker{id, view.spec->role, std::move(endpoint), bootstrap_port, says.load_reports});
  places_.push_back({std::move(worker), says.step_reports, {}, {}});
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
  worker = std::make_shared<const Worker>(
      Worker{id, worker->role, std::move(endpoint), worker->bootstrap_port, worker->load_reports});
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

void ControlStrand::start(const Request& request, control::Tag tag, const RouteDecision& at, Instant now) {
  book_.start(request, at.instance, worker(at.instance)->role == Role::Prefill, now);
  if (ledger_ != nullptr) ledger_->started(request, at.instance, now);
  say(Word::Start, tag, at.instance, control::Refusal::Busy, at.reason);
  outgoing_.back().urgency = urgency_of(request);
}
void ControlStrand::hand_over(const Request& request, control::Tag tag, InstanceId, const RouteDecision& decode,
                              Instant now) {
  book_.hand_over(request, decode.instance, now);
  if (ledger_ != nullptr) ledger_->handed_over(request.id, decode.instance);
  say(Word::HandOver, tag, decode.instance, control::Refusal::Busy, decode.reason);
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

void ControlStrand::handed_over(const control::HandOver& what, Instant) {
  for (const InstanceId instance : {what.prefill, what.decode}) {
    const auto i = index_.find(instance);
    if (!i) continue;
    watch_.handed_over(*i, what.age, what.wait);
    if (watch_options_.handed_over) watch_options_.handed_over(instance, what.age, what.wait);
  }
}

void ControlStrand::finished(InstanceId instance, ClassId request_class, bool late) {
  const auto i = index_.find(instance);
  if (!i) return;
  watch_.finished(*i, request_class, 1, late ? 1 : 0);
  if (watch_options_.finished) watch_options_.finished(instance, request_class, late);
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
        d.stream->on_start(d.worker, d.urgency, d.reason);
        break;
      case Word::HandOver:
        d.stream->on_hand_over(d.worker, d.reason);
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
