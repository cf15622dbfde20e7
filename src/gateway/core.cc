#include "gateway/core.h"

#include "base/check.h"

namespace wattle::gateway {

Core::Core(std::vector<InstanceView> instances, control::DispatchPolicies policies, std::uint64_t seed,
           const CoreOptions& options, CorePort& port, journal::Sink& sink)
    : options_(options),
      port_(port),
      sink_(sink),
      dispatcher_(std::move(instances), std::move(policies), seed, *this, sink) {}

bool Core::ready() const {
  bool colocated = false;
  bool prefill = false;
  bool decode = false;
  for (const auto& view : instances()) {
    if (!view.accepting) continue;
    colocated = colocated || view.spec->role == Role::Colocated;
    prefill = prefill || view.spec->role == Role::Prefill;
    decode = decode || view.spec->role == Role::Decode;
  }
  return colocated || (prefill && decode);
}

void Core::arrive(const Request& request, Instant now) {
  const auto [place, fresh] = flights_.try_emplace(request.id.value());
  WATTLE_CHECK(fresh, "request ids are unique");
  place->second.request = request;
  ++counts_.arrived;
  ++counts_.in_flight;
  counts_.prompt_tokens += request.prompt_tokens;
  if (!ready() || counts_.in_flight > options_.max_requests) {
    const bool busy = ready();
    const char* reason = busy ? "the gateway's queue is full" : "no instance is ready";
    Outcome outcome;
    outcome.fate = Fate::Rejected;
    outcome.reason = reason;
    close(place->second, outcome, now, false);
    port_.refuse(request.id, busy ? Refusal::Busy : Refusal::NotReady, reason, now);
    return;
  }
  dispatcher_.arrive(request, now);
}

void Core::prefill_done(RequestId id, Instant now) {
  if (flights_.contains(id.value())) dispatcher_.prefill_done(id, now);
}

void Core::start(const Request& request, InstanceId instance, Instant now) {
  Flight& flight = flights_.at(request.id.value());
  flight.started = true;
  flight.dispatched = now;
  flight.prefill = instance;
  // Colocated until a hand-over says otherwise.
  if (instances()[static_cast<std::size_t>(instance.value())].spec->role == Role::Colocated) flight.decode = instance;
  const RequestId id = request.id;
  port_.start(request, instance, now);
  if (options_.both_legs_at_once) dispatcher_.bind_decode(id, now);
}

void Core::hand_over(const Request& request, InstanceId prefill, InstanceId decode, Instant now) {
  flights_.at(request.id.value()).decode = decode;
  port_.hand_over(request.id, prefill, decode, now);
}

void Core::refuse(const Request& request, const char* reason, Instant now) {
  const auto found = flights_.find(request.id.value());
  const Refusal refusal = found->second.started ? Refusal::NotReady : Refusal::Busy;
  Outcome outcome;
  outcome.fate = Fate::Rejected;
  outcome.reason = reason;
  close(found->second, outcome, now, false);  // the dispatcher has forgotten it already
  port_.refuse(request.id, refusal, reason, now);
}

void Core::leave(RequestId id, Fate fate, const char* reason, const TokenTally& tally, Instant now) {
  const auto found = flights_.find(id.value());
  if (found == flights_.end()) return;
  Outcome outcome;
  outcome.fate = fate;
  outcome.reason = reason;
  outcome.output_tokens = tally.count();
  outcome.first_token = tally.first();
  outcome.gaps_within_itl = tally.gaps_within();
  close(found->second, outcome, now, true);
}

void Core::close(Flight& flight, Outcome outcome, Instant now, bool dispatcher_knows) {
  outcome.request = flight.request;
  outcome.dispatched = flight.dispatched;
  // The wire does not tell when the first prompt token was scheduled: the dispatch is the earliest it can have been.
  outcome.prefill_start = flight.dispatched;
  outcome.prefill_instance = flight.prefill;
  outcome.decode_instance = flight.decode;
  outcome.left = now;
  const bool started = flight.started;
  flights_.erase(flight.request.id.value());

  --counts_.in_flight;
  counts_.output_tokens += outcome.output_tokens;
  switch (outcome.fate) {
    case Fate::Finished:
      ++counts_.finished;
      break;
    case Fate::Rejected:
      ++counts_.rejected;
      break;
    case Fate::Failed:
      ++counts_.failed;
      break;
    case Fate::Cancelled:
      ++counts_.cancelled;
      break;
  }
  sink_.outcome(outcome);
  if (!dispatcher_knows) return;
  if (started) {
    dispatcher_.left(outcome, now);
  } else {
    dispatcher_.cancel_held(outcome.request.id, now);
  }
}

InstanceId Core::add_instance(InstanceView view, Instant now) { return dispatcher_.add_instance(view, now); }

void Core::set_accepting(InstanceId id, bool accepting, Instant now) {
  if (instances()[static_cast<std::size_t>(id.value())].accepting != accepting) {
    dispatcher_.set_accepting(id, accepting, now);
  }
}

}  // namespace wattle::gateway
