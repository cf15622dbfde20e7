#include "gateway/relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "gateway/leg_bootstrap.h"
#include "gateway/leg_nixl.h"
#include "net/clock.h"

namespace wattle::gateway {

namespace {

constexpr std::size_t kUnsentMax = 256 * 1024;  ///< a slower client stops us reading from the engine
constexpr std::size_t kPrefillAnswerMax = 4 << 20;
constexpr std::size_t kPrefillErrorMax = 64 * 1024;
constexpr std::size_t kCarry = 512;

/// Hop-by-hop fields (RFC 9110 7.6.1), those we set ourselves, those that would change the answer's encoding, and those
/// by which llm-d's sidecar learns where to fetch KV.
bool travels(std::string_view name) {
  constexpr std::array<std::string_view, 19> kStay{"connection",
                                                   "keep-alive",
                                                   "proxy-authenticate",
                                                   "proxy-authorization",
                                                   "te",
                                                   "trailer",
                                                   "transfer-encoding",
                                                   "upgrade",
                                                   "host",
                                                   "content-length",
                                                   "expect",
                                                   "accept-encoding",
                                                   "x-request-id",
                                                   "proxy-connection",
                                                   "content-type",
                                                   "x-prefiller-host-port",
                                                   "x-prefiller-url",
                                                   "x-encoder-hosts-ports",
                                                   "x-data-parallel-host-port"};
  return std::ranges::none_of(kStay, [name](std::string_view s) { return net::same_name(s, name); });
}

}  // namespace

std::string request_name(RequestId id) { return fmt::format("wattle-{:016x}", static_cast<std::uint64_t>(id.value())); }

Relay::Relay(RelayContext& context, std::shared_ptr<net::Exchange> exchange, const net::CompletionRequest& asked,
             const Request& request, carbon::ModelId model)
    : context_(context),
      loop_(exchange->loop()),
      exchange_(std::move(exchange)),
      request_(request),
      model_(model),
      path_(asked.path),
      stream_(asked.stream),
      usage_asked_(asked.stream && !asked.stream_options),
      prompts_(asked.prompts),
      tally_(context.itl_slo) {
  const net::HeaderFields& fields = exchange_->headers();
  request_id_ = fields.get("X-Request-Id");
  if (request_id_.empty()) request_id_ = request_name(request.id);
  headers_ = "Content-Type: application/json\r\nX-Request-Id: " + request_id_ + "\r\n";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields.at(i);
    if (!travels(field.name)) continue;
    headers_.append(field.name).append(": ").append(field.value).append("\r\n");
  }
}

Instant Relay::now() {
  if (!now_fresh_) {
    now_ = net::steady_now();
    now_fresh_ = true;
  }
  return now_;
}

void Relay::start() {
  const auto self = shared_from_this();
  exchange_->on_gone([self] {
    if (self->over_) return;
    // Prefill: the engine stops. Decode: the prefill side's blocks go back when its lease ends; no second cancel. Both
    // at once: both stop, unless the KV has been handed over.
    if (self->call_) self->call_->cancel();
    if (self->tally_.count() == 0) self->drop_prefill_leg();
    self->now_fresh_ = false;
    self->end(Fate::Cancelled, "the client went away");
  });
  context_.control.arrive(request_, self, model_);
}

std::string_view Relay::target() const {
  return path_ == net::ApiPath::Chat ? "/v1/chat/completions" : "/v1/completions";
}

/// The engine alone knows how many tokens a prompt and its answer have.
net::Body Relay::asking_for_usage(const std::string& body) const {
  if (!usage_asked_) return body;
  return {std::string_view(body).substr(0, body.rfind('}')), R"(,"stream_options":{"include_usage":true}})"};
}

void Relay::send(const std::string& body) {
  status_ = 0;
  heard_ = net::steady_now();
  context_.relays.try_emplace(this, weak_from_this());
  const net::Body whole = leg_ == Leg::Final ? asking_for_usage(body) : net::Body(body);
  call_ = context_.client.send(worker_->endpoint, "POST", target(), headers_, whole, shared_from_this());
}

void Relay::on_sent() {
  if (over_ || leg_ != Leg::Final || stream_ || std::exchange(unseen_, true)) return;
  context_.control.unseen(request_.id);
}

void Relay::worker_lost(InstanceId worker, Span silence) {
  if (over_ || !call_ || !worker_ || worker_->id != worker || net::steady_now() - heard_ < silence) return;
  now_fresh_ = false;
  call_->cancel();
  call_.reset();
  context_.metrics.worker_failure(worker_->endpoint->url);
  fail(504, "the engine stopped answering", "the engine stopped answering");
}

void Relay::cut_off() {
  if (over_) return;
  now_fresh_ = false;
  if (call_) call_->cancel();
  call_.reset();
  drop_prefill_leg();
  fail(503, "the gateway stopped", "the gateway is stopping, try again elsewhere");
}

void Relay::on_start(const std::shared_ptr<const Worker>& worker) {
  if (over_) return;
  worker_ = worker;
  seat_.wait_at(worker, request_.prompt_tokens);
  if (worker->role != Role::Prefill) {
    leg_ = Leg::Final;
    return send(exchange_->body());
  }
  leg_ = Leg::Prefill;
  if (context_.contract == PdContract::Bootstrap) {
    prefill_worker_ = worker;  // sent together with decode, whose instance is on its way to us
    return;
  }
  auto body = nixl::prefill_body(exchange_->body());
  if (!body) return fail(400, "unreadable body", "the request body is not a JSON object");
  leg_body_ = std::move(*body);
  send(leg_body_);
}

void Relay::on_hand_over(const std::shared_ptr<const Worker>& decode) {
  if (over_) return;
  worker_ = decode;
  if (prefill_worker_) prefill_seat_.wait_at(prefill_worker_, request_.prompt_tokens);
  seat_.wait_at(decode, 0);
  leg_ = Leg::Final;
  if (prefill_worker_) return send_both();
  const std::string params = nixl::transfer_params(std::move(answer_));
  if (params.empty()) {
    context_.metrics.missing_transfer_params();
    return send(exchange_->body());
  }
  leg_body_ = nixl::decode_body(exchange_->body(), params);
  send(leg_body_);
}

// ---- both legs at once ---------------------------------------------------------------------------------------------

void Relay::send_both() {
  const std::string& host_port = prefill_worker_->endpoint->host_port;
  std::vector<std::uint64_t> rooms(static_cast<std::size_t>(prompts_));
  for (auto& room : rooms) room = context_.rooms();
  auto body = bootstrap::body_for_both(exchange_->body(), host_port.substr(0, host_port.rfind(':')),
                                       prefill_worker_->bootstrap_port, rooms);
  if (!body) return fail(400, "unreadable body", "the request body is not a JSON object");
  both_body_ = std::make_shared<const std::string>(std::move(*body));
  prefill_leg_ = std::make_shared<PrefillLeg>(shared_from_this(), both_body_);
  prefill_leg_->send(context_.client, prefill_worker_->endpoint, target(), headers_, asking_for_usage(*both_body_));
  send(*both_body_);
}

void Relay::prefill_over() {
  prefill_seat_.leave();
  if (!prefill_worker_) return;
  prefill_worker_.reset();
  context_.control.prefill_done(request_.id);
}

void Relay::drop_prefill_leg() {
  if (const auto leg = std::exchange(prefill_leg_, nullptr)) leg->cancel();
}

void Relay::prefill_leg_done() {
  prefill_leg_.reset();
  if (!over_) prefill_over();
}

void Relay::prefill_leg_refused(int status, const std::string& answer) {
  prefill_leg_.reset();
  if (over_ || tally_.count() > 0) return;
  now_fresh_ = false;
  if (call_) call_->cancel();  // it would wait for KV that never comes
  call_.reset();
  if (begun_ || status < 400) return fail(502, "the prefill engine refused", "the prefill engine refused the request");
  status_ = status;
  exchange_->respond(status, "application/json", answer, "X-Request-Id: " + request_id_ + "\r\n");
  end(status / 100 == 4 ? Fate::Rejected : Fate::Failed, "the prefill engine answered with an error");
}

void Relay::prefill_leg_failed(net::CallFailure failure) {
  prefill_leg_.reset();
  if (over_) return;
  context_.metrics.worker_failure(prefill_worker_ ? prefill_worker_->endpoint->url : "prefill");
  if (failure == net::CallFailure::Connect && prefill_worker_) context_.worker_down(prefill_worker_->id);
  if (tally_.count() > 0) return;  // the KV has been handed over: decode does not need it any more
  now_fresh_ = false;
  if (call_) call_->cancel();
  call_.reset();
  fail(502, "the prefill engine failed", fmt::format("the prefill engine failed: {}", net::text_of(failure)));
}

void PrefillLeg::send(net::HttpClient& client, const std::shared_ptr<const net::Endpoint>& endpoint,
                      std::string_view target, std::string_view headers, const net::Body& body) {
  call_ = client.send(endpoint, "POST", target, headers, body, shared_from_this());
}

void PrefillLeg::cancel() {
  relay_.reset();
  if (call_) call_->cancel();
  call_.reset();
}

void PrefillLeg::on_body(std::string_view bytes) {
  if (status_ != 200 && error_.size() < kPrefillErrorMax) error_.append(bytes.substr(0, kPrefillErrorMax));
}

void PrefillLeg::on_end() {
  call_.reset();
  const auto relay = std::exchange(relay_, nullptr);
  if (!relay) return;
  status_ == 200 ? relay->prefill_leg_done() : relay->prefill_leg_refused(status_, error_);
}

void PrefillLeg::on_failure(net::CallFailure failure) {
  call_.reset();
  if (const auto relay = std::exchange(relay_, nullptr)) relay->prefill_leg_failed(failure);
}

// --------------------------------------------------------------------------------------------------------------------

void Relay::on_refuse(control::Refusal refusal, const char* reason) {
  if (over_) return;
  over_ = true;  // the core has booked it as rejected
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
  exchange_->respond(error.status, "application/json", net::error_json(error),
                     "Retry-After: 1\r\nX-Request-Id: " + request_id_ + "\r\n");
  exchange_.reset();
}

void Relay::on_head(int status, const net::HeaderFields& headers, std::int64_t content_length) {
  if (over_) return;
  heard_ = now();
  status_ = status;
  if (leg_ == Leg::Prefill && status == 200) return;
  if (status != 200) drop_prefill_leg();
  leg_ = Leg::Final;  // an error of the prefill leg goes to the client as it is
  const std::string_view type = headers.get("Content-Type");
  events_ = status == 200 && type.starts_with("text/event-stream");
  std::string extra = "X-Request-Id: " + request_id_ + "\r\n";
  if (events_) extra += "Cache-Control: no-cache\r\n";
  if (const auto retry = headers.get("Retry-After"); !retry.empty()) {
    extra.append("Retry-After: ").append(retry).append("\r\n");
  }
  if (events_) {
    stream_type_ = type;
    stream_head_ = std::move(extra);
    head_waits_ = true;
    return;
  }
  std::optional<std::uint64_t> length;
  if (content_length >= 0 && !events_) length = static_cast<std::uint64_t>(content_length);
  exchange_->begin(status, type, extra, length);
  begun_ = true;
}

void Relay::begin_stream() {
  if (!std::exchange(head_waits_, false)) return;
  exchange_->begin(status_, stream_type_, stream_head_, std::nullopt);
  begun_ = true;
}

/// No byte of an answer has come: the request waits in the engine, or its prompt is being computed.
void Relay::on_withdraw() {
  const bool taken = !over_ && call_ && stream_ && leg_ == Leg::Final && !begun_ && !prefill_leg_ &&
                     worker_->role == Role::Colocated && (status_ == 0 || status_ == 200);
  if (taken) {
    call_->cancel();
    take_back();
  }
  context_.control.withdrawn(request_.id, taken);
}

void Relay::take_back() {
  call_.reset();
  context_.relays.erase(this);
  seat_.leave();
  head_waits_ = false;
  leg_ = Leg::None;
}

void Relay::on_body(std::string_view bytes) {
  if (over_) return;
  heard_ = now();
  if (leg_ == Leg::Prefill) {
    if (answer_.size() + bytes.size() > kPrefillAnswerMax) {
      call_->cancel();
      return fail(502, "prefill answer too large", "the prefill engine's answer is larger than the gateway accepts");
    }
    answer_.append(bytes);
    return;
  }
  if (events_) {
    begin_stream();
    return relay_events(bytes);
  }
  exchange_->write(bytes);
  if (status_ != 200) return;
  if (bytes.size() >= kCarry) {
    carry_.assign(bytes.substr(bytes.size() - kCarry));
  } else {
    carry_.append(bytes);
    if (carry_.size() > 2 * kCarry) carry_.erase(0, carry_.size() - kCarry);
  }
  // Usage may lie anywhere in the answer: look where it has not been looked at yet, too.
  const std::string_view seen = bytes.size() >= kCarry ? bytes : std::string_view(carry_);
  const auto number = [seen](std::string_view key) {
    const auto found = net::integer_after(seen, key);
    return static_cast<std::int32_t>(std::min<std::int64_t>(found, std::numeric_limits<std::int32_t>::max()));
  };
  take_usage(number("\"prompt_tokens\""), number("\"completion_tokens\""));
}

void Relay::take_usage(std::int32_t prompt_tokens, std::int32_t completion_tokens) {
  if (completion_tokens >= 0) usage_tokens_ = completion_tokens;
  if (prompt_tokens > 0) tally_.prompt(prompt_tokens);
}

void Relay::relay_events(std::string_view bytes) {
  parser_.feed(bytes);
  std::size_t from = 0;   // of what has not been relayed yet
  std::size_t begin = 0;  // of the event that comes next
  while (const auto event = parser_.next()) {
    const net::ChunkFacts facts = net::read_chunk(event->data);
    for (std::int32_t i = 0; i < facts.tokens; ++i) token_came();
    done_seen_ = done_seen_ || facts.done;
    error_seen_ = error_seen_ || facts.error;
    take_usage(facts.prompt_tokens, facts.completion_tokens);
    const std::size_t end = parser_.complete_bytes();
    if (facts.usage_only && usage_asked_) {  // the client has not asked for it
      if (begin > 0) relay(bytes.substr(from, begin - from));
      tail_.clear();  // its beginning, when nothing came before it
      from = end;
    }
    begin = end;
  }
  if (parser_.overflowed()) {
    call_->cancel();
    return fail(502, "engine's event too large", "the engine sent an event larger than the gateway accepts");
  }
  const std::size_t complete = parser_.complete_bytes();
  if (complete > from) relay(bytes.substr(from, complete - from));
  tail_.append(bytes.substr(complete));
}

/// Bytes up to the end of an event; what was held back of the first one goes before them.
void Relay::relay(std::string_view bytes) {
  if (bytes.empty()) return;
  if (tail_.empty()) return exchange_->write(bytes);
  tail_.append(bytes);
  exchange_->write(tail_);
  tail_.clear();
}

void Relay::token_came() {
  tally_.token(now());
  if (tally_.count() > 1) {
    ++unbooked_tokens_;
    return;
  }
  prefill_over();
  seat_.decode(request_.prompt_tokens + 1);
  context_.control.first_token(request_.id);
}

void Relay::on_turn() {
  now_fresh_ = false;
  seat_.grow(std::exchange(unbooked_tokens_, 0));
  if (over_ || !begun_ || exchange_->unsent_bytes() <= kUnsentMax) return;
  call_->pause();
  exchange_->on_drained([call = call_] { call->resume(); });
}

void Relay::on_end() {
  if (over_) return;
  now_fresh_ = false;
  call_.reset();
  if (leg_ == Leg::Prefill) return context_.control.prefill_done(request_.id);
  if (status_ != 200) {
    exchange_->finish();
    return end(status_ / 100 == 4 ? Fate::Rejected : Fate::Failed, "the engine answered with an error");
  }
  if (!events_) {
    tally_.whole(std::max(usage_tokens_, 0), request_.arrival, now());
    exchange_->finish();
    return end(Fate::Finished, "");
  }
  if (error_seen_) {  // the client has the engine's own words; what came after them, [DONE] too, is no success
    exchange_->finish();
    status_ = 502;
    context_.metrics.worker_failure(worker_->endpoint->url);
    return end(Fate::Failed, "the engine failed in its stream");
  }
  if (!done_seen_) return fail(502, "stream cut off", "the engine ended the stream without finishing it");
  if (usage_tokens_ >= 0) tally_.correct(usage_tokens_);
  exchange_->finish();
  end(Fate::Finished, "");
}

void Relay::on_failure(net::CallFailure failure) {
  if (over_) return;
  now_fresh_ = false;
  call_.reset();
  context_.metrics.worker_failure(worker_->endpoint->url);
  if (failure == net::CallFailure::Connect) {
    context_.worker_down(worker_->id);
    if (worker_->role != Role::Decode && !unseen_ && !std::exchange(bounced_, true)) {
      context_.metrics.retried();
      take_back();
      return context_.control.bounced(request_.id);
    }
  }
  // Else no second try elsewhere: an engine may have seen the request, and it may be what the engine died of.
  const bool slow = failure == net::CallFailure::Timeout;
  fail(slow ? 504 : 502, slow ? "the engine timed out" : "the engine failed",
       fmt::format("the engine failed: {}", net::text_of(failure)));
}

void Relay::fail(int status, const char* reason, std::string_view message) {
  net::ApiError error;
  error.status = status;
  error.type = status < 500 ? "invalid_request_error" : "upstream_error";
  error.code = status < 500 ? "" : status == 503 ? "stopping" : "engine_failed";
  error.message = message;
  status_ = status;
  if (!begun_) {
    exchange_->respond(status, "application/json", net::error_json(error), "X-Request-Id: " + request_id_ + "\r\n");
  } else if (events_) {
    // What was relayed ends on an event's boundary, so the client reads this as an event of its own, then the end.
    exchange_->write("data: " + net::error_json(error) + "\n\n");
    exchange_->finish();
  } else {
    exchange_->drop();  // the length was promised; only breaking off tells the truth
  }
  end(status < 500 ? Fate::Rejected : Fate::Failed, reason);
}

void Relay::end(Fate fate, const char* reason) {
  over_ = true;
  context_.relays.erase(this);
  seat_.leave();
  prefill_seat_.leave();
  if (fate == Fate::Failed && tally_.count() == 0) drop_prefill_leg();  // one leg dead: the other at once
  if (prefill_leg_) prefill_leg_->detach();
  prefill_leg_.reset();
  exchange_.reset();
  call_.reset();
  if (fate != Fate::Cancelled) context_.metrics.answered(status_);
  context_.metrics.request_over(request_, tally_, now());
  context_.control.leave(request_.id, fate, reason, tally_);
}

}  // namespace wattle::gateway
