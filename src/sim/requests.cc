// The life of a simulated request: it arrives, is put into engines and taken out of them, and leaves.
#include <algorithm>
#include <utility>

#include "control/consumption.h"
#include "engine/handoff.h"
#include "sim/simulation_impl.h"

namespace wattle::sim {

void Simulation::arrive(const workload::TraceRow& row, Instant now) {
  const Tag tag = flights_.open(RequestId(arrivals_++));
  auto& flight = flights_[tag];
  Request& request = flight.request;
  request.arrival = now;
  request.prompt_tokens = row.prompt_tokens;
  request.max_tokens = setup_.max_tokens;
  request.content = row.content;
  if (setup_.length_hint) {
    request.predicted_output_tokens = setup_.length_hint->predict(row.output_tokens, request.max_tokens);
  }
  clients_.sign(request);
  if (setup_.length_learner) {
    if (length_fitting_ && now >= length_fitting_->done) {
      setup_.length_learner->end_fit(std::move(length_fitting_->trees));
      length_fitting_.reset();
    }
    request.predicted_output_tokens = setup_.length_learner->predict(features_of(request));
  }
  flight.true_output_tokens = row.output_tokens;
  statistics_.add_arrivals();
  flight.served.prefill_start = Instant();
  scaler_.arrived(now, requests_.arrive(Request(request), tag, now));  // a copy: it may leave at once
}

predict::PromptFeatures Simulation::features_of(const Request& request) const {
  const auto& tenants = setup_.service.tenants;
  const auto tenant = static_cast<std::size_t>(request.tenant.value());
  return predict::features_of({.prompt_tokens = request.prompt_tokens,
                               .max_tokens = request.max_tokens,
                               .tenant = tenant < tenants.size() ? std::string_view(tenants[tenant].name) : ""});
}

void Simulation::learn_length(const Request& request, std::int32_t tokens, Instant now) {
  auto& learner = *setup_.length_learner;
  learner.observe(features_of(request), tokens);
  if (learner.due()) length_fitting_ = {learner.fitting()(learner.begin_fit()), now + setup_.refit_delay};
}

engine::Job Simulation::job_of(Tag tag) {
  const auto& flight = flights_[tag];
  engine::Job job;
  job.tag = tag;
  job.id = flight.request.id;
  job.arrival = flight.request.arrival;
  job.prompt_tokens = flight.request.prompt_tokens;
  job.output_tokens = flight.true_output_tokens;
  job.itl = requests_.objectives().itl_of(flight.request.tier, job.prompt_tokens, job.output_tokens);
  job.content = flight.request.content;
  return job;
}

void Simulation::submit(Tag tag, InstanceId instance, bool kv_ready, Instant now) {
  const auto& flight = flights_[tag];
  auto& replica = engines_[index(instance)];
  if (!replica.can_ever_fit(flight.request.prompt_tokens, flight.true_output_tokens)) {
    leave(tag, kv_ready ? Fate::Failed : Fate::Rejected, "prompt and output can never fit in the KV cache", now);
    return;
  }
  if (keeps_book() && !kv_ready) {
    book_.start(flight.request, instance, setup_.instances[index(instance)].spec->role == Role::Prefill, now);
    if (flight.produced > 0) book_.prompt_done(flight.request.id, now);  // the first token will not be reported again
  }
  engine::Job job = job_of(tag);
  job.kv_ready = kv_ready;
  job.produced = flight.produced;
  job.last_token = flight.last_token;
  replica.submit(job, now);
  kick(index(instance), now);
  if (gauges_alone()) look_again(instance, now);
}

void Simulation::start(const Request& request, Tag tag, const RouteDecision& at, Instant now) {
  const InstanceId instance = at.instance;
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

/// The network's round trip is simulated as one delay before the engine, so that all of a request's times are the
/// client's.
void Simulation::travelled(const Event& event) { reaches(event, false); }

void Simulation::reaches(const Event& event, bool kv_ready) {
  const auto& flight = flights_[event.tag];
  if (!flight.alive || flight.life != event.life) return;
  const auto there = index_.find(event.instance);
  if (!there || engines_[*there].dead()) {
    lose(event.tag, event.instance, event.at);
  } else {
    submit(event.tag, event.instance, kv_ready, event.at);
  }
}

bool Simulation::preempt(const Request&, Tag tag, InstanceId instance, bool, Instant now) {
  auto& flight = flights_[tag];
  if (setup_.instances[index(instance)].spec->role != Role::Colocated) return false;
  if (!engines_[index(instance)].cancel(tag, now)) return false;  // on its way, or finished
  flight.displaced = true;
  engines_.wake(index(instance));
  return true;
}

/// A preempted request has left its engine: it is held and computed again. False: the engine was computing its last
/// token.
bool Simulation::given_up(const engine::Event& event, Instant now) {
  auto& flight = flights_[event.tag];
  flight.displaced = false;
  if (event.output_tokens >= flight.true_output_tokens) return false;
  flight.produced = event.output_tokens;
  flight.last_token = event.last_token;
  ++flight.served.preemptions;
  const InstanceId instance = flight.decode;
  if (keeps_book()) book_.leave(flight.request.id);
  requests_.displaced(flight.request.id, event.output_tokens, now);
  perhaps_drained(instance, now);
  return true;
}

void Simulation::hand_over(const Request& request, Tag tag, InstanceId prefill, const RouteDecision& to, Instant now) {
  const InstanceId decode = to.instance;
  flights_[tag].decode = decode;
  if (keeps_book()) book_.hand_over(request, decode, now);
  Instant arrived = now;
  if (setup_.link.bandwidth_bytes_per_s > 0.0) {
    // Blocks that the decode engine has cached are not transferred.
    const std::int64_t tokens = request.prompt_tokens - engines_[index(decode)].cached_tokens(job_of(tag));
    const double bytes = setup_.instances[index(prefill)].spec->llm.kv_bytes_per_token() * static_cast<double>(tokens);
    auto& free = link_free_[index(prefill)];
    free = std::max(free, now) + Span::from_seconds(bytes / setup_.link.bandwidth_bytes_per_s);
    arrived = free + setup_.link.latency;
  }
  agenda_.push({arrived, EventClass::Transfer, 0, tag, flights_[tag].life, decode, Span()});
}

void Simulation::in_vain(const Request&, Tag tag, InstanceId prefill, Instant now) {
  auto& flight = flights_[tag];
  flight.prefill = kNoInstance;
  if (keeps_book()) book_.leave(flight.request.id);
  engines_[index(prefill)].release(tag, now);
  perhaps_drained(prefill, now);
}

void Simulation::transfer_done(const Event& event) {
  auto& flight = flights_[event.tag];
  if (!flight.alive || flight.life != event.life) return;  // its prefill instance died on the way
  const InstanceId prefill = flight.prefill;
  engines_[index(prefill)].release(event.tag, event.at);
  const auto to = index_.find(event.instance);  // it may be gone
  if (setup_.link.handoff_steps > 0.0 && to) {
    Event then = event;
    then.event_class = EventClass::Handed;
    const Span step = engines_[*to].step_length(event.at);
    then.at = event.at +
              Span::from_seconds(step.seconds() * setup_.link.handoff_steps * engine::handoff_wait(handed_over_++));
    agenda_.push(then);
  } else {
    handed(event);
  }
  kick(index(prefill), event.at);
  perhaps_drained(prefill, event.at);
}

/// Submits a request to the decode engine that has its KV.
void Simulation::handed(const Event& event) { reaches(event, true); }

/// The first token of a request whose prompt was computed by a prefill instance.
void Simulation::taken_over(const engine::Event& event) {
  auto& flight = flights_[event.tag];
  flight.served.first_token = event.at;
  flight.served.output_tokens = 1;
  requests_.first_token(flight.request.id, event.at);
}

control::Served Simulation::refuse(const Request& request, Tag tag, control::Refusal, const char*, Instant now) {
  auto& flight = flights_[tag];
  flight.request.request_class = request.request_class;
  const InstanceId prefill = flight.prefill;
  const auto at = index_.find(prefill);  // one that was displaced may outlive its instance
  if (at) engines_[*at].release(tag, now);
  const control::Served served = close(tag, now);
  if (at) perhaps_drained(prefill, now);
  return served;
}

/// Closes the request and returns what was served; its slot may be reused.
control::Served Simulation::close(Tag tag, Instant now) {
  auto& flight = flights_[tag];
  if (keeps_book()) book_.leave(flight.request.id);
  flight.served.charge =
      control::known(ledger_, ledger_.request_left(flight.request, flight.served.output_tokens, flight.account));
  last_left_ = now;
  flights_.close(tag);
  return flight.served;
}

void Simulation::leave(Tag tag, Fate fate, const char* reason, Instant now) {
  const RequestId id = flights_[tag].request.id;
  const InstanceId at = flights_[tag].decode != kNoInstance ? flights_[tag].decode : flights_[tag].prefill;
  const bool learns = setup_.length_learner && fate == Fate::Finished;
  const Request request = learns ? flights_[tag].request : Request();
  const control::Served served = close(tag, now);
  if (learns) learn_length(request, served.output_tokens, now);
  requests_.leave(id, fate, reason, served, now);
  if (at != kNoInstance) perhaps_drained(at, now);
}

void Simulation::withdraw(const Request& request, Tag tag, InstanceId instance, Instant now) {
  const RequestId id = request.id;  // the request may be gone before this returns
  const bool taken = engines_[index(instance)].withdraw(tag, now);
  if (taken) {
    flights_[tag].prefill = flights_[tag].decode = kNoInstance;
    if (keeps_book()) book_.leave(id);
    kick(index(instance), now);
  }
  requests_.withdrawn(id, taken, now);
  if (taken) perhaps_drained(instance, now);
}

}  // namespace wattle::sim
