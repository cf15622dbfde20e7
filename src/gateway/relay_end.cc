// How a request ends, and what its record says of it.
#include <utility>

#include "gateway/relay.h"
#include "net/clock.h"

namespace wattle::gateway {

namespace {
/// For the reading of the meters after a request's end, which agents' polls make 50 ms.
constexpr Span kEnergyWait = Span::s(1);
constexpr std::size_t kShortTail = 64;

/// The last event without its blank line: some engines leave that out.
bool ends_in_done(std::string_view tail) {
  const auto end = tail.find_last_not_of("\r\n");
  return end != std::string_view::npos && tail.size() < kShortTail && tail.substr(0, end + 1).ends_with("[DONE]");
}

}  // namespace

void Relay::over_whole() {
  if (net::is_completion(path_) && last_of_whole_ != '}') return no_object();
  tally_.whole(std::max(tally_.counted().output, 0), request_.arrival, now());
  if (head_waits_) {
    const bool json = net::is_type(type_, "application/json");
    return end_charged(ChargedAnswer::whole(exchange_, type_, head_, std::move(held_), json));
  }
  exchange_->finish();
  end(Fate::Finished, "");
}

void Relay::over_stream() {
  if (!done_seen_ && ends_in_done(tail_)) relay_events("\n\n");
  // An answer may be empty, but then a choice says that it has finished.
  const bool unfinished = done_seen_ && !finish_seen_ && (tally_.count() > 0 || net::is_completion(path_));
  if (error_seen_ || unfinished) {  // the client has the engine's own words; what came after them is no success
    exchange_->write(held_end_);
    exchange_->finish();
    context_.metrics.worker_failure(worker_->endpoint->url);
    return end(Fate::Failed, error_seen_ ? "the engine failed in its stream" : "no choice of the stream had finished");
  }
  // Of streams that we do not know only those with tokens that we do are known to have an end of their own.
  if (!done_seen_ && (path_ != net::ApiPath::Other || tally_.count() > 0)) {
    context_.metrics.worker_failure(worker_->endpoint->url);
    return fail(502, "stream cut off", "the engine ended the stream without finishing it");
  }
  tally_.correct(tally_.counted().output);
  if (energy_asked_) return end_charged(ChargedAnswer::stream(exchange_, std::move(held_), std::move(held_end_)));
  exchange_->finish();
  end(Fate::Finished, "");
}

/// The client has the stream's last event: what becomes of the connection behind it changes nothing.
void Relay::over_early() {
  if (const auto call = std::exchange(call_, nullptr)) call->cancel();
  over_stream();
}

void Relay::on_refuse(control::Refusal refusal, const char* reason) {
  if (over_) return;
  over_ = true;  // the core has booked it as rejected
  settle(Fate::Rejected);
  context_.relays.erase(this);
  seat_.leave();
  net::ApiError error;
  error.status = refusal == control::Refusal::Busy ? 429 : 503;
  error.type = refusal == control::Refusal::Busy ? "rate_limit_error" : "service_unavailable_error";
  error.code = refusal == control::Refusal::Busy       ? "queue_full"
               : refusal == control::Refusal::NotReady ? "not_ready"
                                                       : "overloaded";
  error.message = reason;
  context_.metrics.answered(error.status);
  if (record_) {
    status_ = error.status;
    note_end(Fate::Rejected, reason);
    // Not over yet: an attempt that was lost may have drawn energy.
    context_.control.leave(request_.id, Fate::Rejected, reason, {}, {}, own_name_ ? std::string() : request_id_,
                           with_record(nullptr));
  }
  exchange_->respond(error.status, "application/json", net::error_json(error),
                     "Retry-After: 1\r\nX-Request-Id: " + request_id_ + "\r\n");
  exchange_.reset();
}

void Relay::fail(int status, const char* reason, std::string_view message) {
  net::ApiError error;
  error.status = status;
  error.type = status < 500 ? "invalid_request_error" : "upstream_error";
  error.code = status < 500 ? "" : status == 503 ? "unavailable" : "engine_failed";
  error.message = message;
  if (!begun_ || whole_waits_) {
    status_ = status;  // else the client has had another one, and what is counted is what went over the wire
    exchange_->respond(status, "application/json", net::error_json(error),
                       (status == 503 ? "Retry-After: 1\r\n" : "") + ("X-Request-Id: " + request_id_ + "\r\n"));
  } else if (events_) {
    // What was relayed ends on an event's boundary, so the client reads this as an event of its own, then the end.
    exchange_->write("data: " + net::error_json(error) + "\n\n");
    exchange_->finish();
  } else {
    exchange_->drop();  // the length was promised; only breaking off tells the truth
  }
  end(status < 500 ? Fate::Rejected : Fate::Failed, reason);
}

void Relay::end(Fate fate, const char* reason, LiveLedger::Charged charged) {
  over_ = true;
  const bool computed = tally_.counted().prompt >= 0 || (worker_ && worker_->role == Role::Decode);
  if (fate == Fate::Rejected && !computed) tally_.counted({.prompt = 0});
  settle(fate);
  if (fate == Fate::Finished && tally_.counted().prompt > 0) {
    context_.prompts.learn(static_cast<std::size_t>(model_.value()), prompt_, tally_.counted().prompt);
  }
  if (fate == Fate::Finished && features_) context_.lengths->finished(std::move(features_), tally_.count());
  context_.relays.erase(this);
  seat_.grow(std::exchange(unbooked_tokens_, 0), tally_.last());
  seat_.leave();
  if (fate == Fate::Failed && tally_.count() == 0) drop_prefill_leg();  // one leg dead: the other at once
  if (prefill_leg_) prefill_leg_->detach();
  prefill_leg_.reset();
  exchange_.reset();
  call_.reset();
  if (fate != Fate::Cancelled) {
    status_ == 200 ? context_.own_metrics.ok.add(1) : context_.metrics.answered(status_);
  }
  context_.own_metrics.request_over(request_, tally_, now());
  if (record_) {
    note_end(fate, reason);
    charged = with_record(std::move(charged));
  }
  std::string name = own_name_ ? std::string() : std::move(request_id_);
  const std::int32_t prompt = tally_.counted().prompt > 0 ? tally_.counted().prompt : request_.prompt_tokens;
  const Span itl = context_.objectives.itl_of(request_.tier, prompt, tally_.count());
  context_.control.leave(request_.id, fate, reason, tally_.served(itl), tally_.counted(), std::move(name),
                         std::move(charged));
}

/// What it took of its tenant's tokens on entry was believed; the engine's count is what holds. Of one that was refused
/// nothing was computed.
void Relay::settle(Fate fate) {
  const auto seat = std::exchange(held_seat_, nullptr);
  if (!seat) return;
  const std::int32_t counted = tally_.counted().prompt;
  if (fate == Fate::Rejected) {
    seat->settle(0.0);
  } else {
    seat->settle((counted >= 0 ? counted : seat->charged()) + tally_.count());
  }
}

void Relay::end_charged(const std::shared_ptr<ChargedAnswer>& answer) {
  answer->wait(kEnergyWait);
  end(Fate::Finished, "",
      [answer](const Outcome& outcome, const char* meters) { answer->charged(EnergySaid::of(outcome, meters)); });
}

void Relay::note_start(const char* decision) {
  if (record_->started == Instant::never()) record_->started = net::steady_now();
  ++record_->attempts;
  record_->decision = decision;
}

void Relay::note_end(Fate fate, std::string_view reason) {
  RequestEnd& r = *record_;
  r.left = net::steady_now();
  r.fate = fate;
  r.reason = reason;
  r.status = status_;
  if (tally_.count() > 0) r.first_token = tally_.first();
  r.prompt_tokens = tally_.counted().prompt >= 0 ? tally_.counted().prompt : request_.prompt_tokens;
  r.cached_tokens = tally_.counted().cached;
  r.output_tokens = tally_.count();
  r.reasoning_tokens = tally_.counted().reasoning;
  if (!worker_) return;
  r.instance = worker_->id;
  r.engine = worker_->endpoint->host_port;
}

/// Its energy is the last thing that is known of it.
LiveLedger::Charged Relay::with_record(LiveLedger::Charged charged) {
  return [inner = std::move(charged), record = record_, observer = context_.observer](const Outcome& outcome,
                                                                                      const char* meters) {
    if (inner) inner(outcome, meters);
    record->booked(outcome, meters);
    observer->over(record);
  };
}

}  // namespace wattle::gateway
