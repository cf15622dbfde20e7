#include "gateway/relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gateway/leg_bootstrap.h"
#include "gateway/leg_nixl.h"
#include "gateway/relay_fields.h"
#include "net/append.h"
#include "net/clock.h"
#include "telemetry/gauges.h"

namespace wattle::gateway {

namespace {

constexpr std::size_t kUnsentMax = 256 * 1024;  ///< a slower client stops us reading from the engine
constexpr std::size_t kPrefillAnswerMax = 4 << 20;
constexpr std::size_t kCarry = 512;
constexpr std::int32_t kRefusalsMost = 3;  ///< by engines that have computed nothing, for one request
constexpr std::size_t kHeldMax = 4 << 20;  ///< of an answer whose client asks for its energy
/// The engine alone knows how many tokens a prompt and its answer have.
constexpr const char *kUsage = R"(,"stream_options":{"include_usage":true})",
                     *kAskForUsage = R"(,"stream_options":{"include_usage":true}})";
/// The format of ORCA's load report, in a header of the answer.
constexpr const char* kAskForLoad = "endpoint-load-metrics-format: json\r\n";

/// The first of an engine's header fields; behind the request's name a suffix of 16 hexadecimal digits.
constexpr std::string_view kNameField = "X-Request-Id: ", kNoSuffix = "-0000000000000000";

/// An object whose first member is "error", and not null: what engines send instead of choices.
bool begins_with_error(std::string_view text) {
  const auto pass = [&](std::string_view word) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
  };
  return pass("{") && pass("\"error\"") && pass(":") && (pass("{") || pass("\""));
}

}  // namespace

Relay::Relay(RelayContext& context, std::shared_ptr<net::Exchange> exchange, const net::CompletionRequest& asked,
             const Request& request, carbon::ModelId model, std::shared_ptr<Limits::Seat> seat,
             std::shared_ptr<RequestEnd> record, std::unique_ptr<predict::PromptFeatures> features)
    : context_(context),
      loop_(exchange->loop()),
      exchange_(std::move(exchange)),
      request_(request),
      model_(model),
      path_(asked.path),
      stream_(asked.stream),
      usage_asked_(net::is_completion(asked.path) && asked.stream && !asked.include_usage),
      usage_appended_(usage_asked_ && asked.stream_options.size == 0),
      ours_(usage_appended_ ? kAskForUsage : ""),
      says_urgency_(context.engine_priority && net::is_completion(asked.path) && !asked.priority),
      energy_asked_(asks_for_energy(exchange_->headers())),
      prompt_(asked.prompt),
      held_seat_(std::move(seat)),
      record_(std::move(record)),
      features_(std::move(features)),
      prompts_(asked.prompts),
      tally_(context.objectives.itl_limits(request.tier)) {
  const net::HeaderFields& fields = exchange_->headers();
  const std::string_view named = client_name(fields);
  own_name_ = named.empty();
  request_id_ = own_name_ ? request_name(request.id) : std::string(named);
  const std::string_view type = net::is_completion(path_) ? "application/json" : fields.get("Content-Type");
  headers_.reserve(256);
  net::append(headers_,
              {kNameField, request_id_, kNoSuffix, "\r\nContent-Type: ", type, "\r\nVia: 1.1 ", context_.via, "\r\n"});
  const std::string trace = record_ ? context_.observer->trace_lines(*record_) : std::string();
  headers_.append(trace);
  append_passed_on(headers_, fields, context_.own_keys, !trace.empty());
  if (!usage_asked_ || usage_appended_) return;
  const std::string& body = exchange_->body();
  const auto [at, size] = asked.stream_options;
  rewritten_.reserve(body.size() + 32 + net::RequestParser::kBodyPadding);
  rewritten_.append(body, 0, at).append(R"({"include_usage":true})").append(body, at + size);
}

const std::string& Relay::body_of_client() const { return rewritten_.empty() ? exchange_->body() : rewritten_; }

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

std::string_view Relay::target() const { return exchange_->target(); }

void Relay::send(const std::string& body) {
  status_ = 0;
  heard_ = net::steady_now();
  context_.relays.try_emplace(this, weak_from_this());
  const net::Body whole = leg_ == Leg::Final ? with_ours(body) : net::Body(body);
  const std::string asks = worker_->load_reports ? headers_ + kAskForLoad : std::string();
  const std::string_view headers = asks.empty() ? headers_ : asks;
  const bool again = sent_again_ || refused_ > 0;
  const Instant by = again ? request_.arrival + context_.first_byte_timeout : Instant::never();
  call_ = context_.client.send(worker_->endpoint, "POST", target(), headers, whole, shared_from_this(), by);
}

void Relay::on_sent() {
  if (over_ || leg_ != Leg::Final || stream_ || std::exchange(unseen_, true)) return;
  context_.control.unseen(request_.id, path_ != net::ApiPath::Other);
}

void Relay::worker_lost(InstanceId worker, Span silence) {
  if (over_ || !call_ || !worker_ || net::steady_now() - heard_ < silence) return;
  if (prefill_leg_ && prefill_worker_ && prefill_worker_->id == worker) return lose(*prefill_worker_);
  if (worker_->id == worker) lose(*worker_);
}

void Relay::worker_left(const Worker& worker) {
  if (over_ || !call_ || !worker_) return;
  if (worker_.get() == &worker || (prefill_leg_ && prefill_worker_.get() == &worker)) lose(worker);
}

void Relay::lose(const Worker& worker) {
  now_fresh_ = false;
  if (all_said()) return over_early();
  context_.metrics.worker_failure(worker.endpoint->url);
  if (try_another(worker.id, true)) return;
  call_->cancel();
  call_.reset();
  fail(504, "the engine stopped answering", "the engine stopped answering");
}

void Relay::cut_off() {
  if (over_) return;
  now_fresh_ = false;
  if (all_said()) return over_early();
  if (call_) call_->cancel();
  call_.reset();
  drop_prefill_leg();
  fail(503, "the gateway stopped", "the gateway is stopping, try again elsewhere");
}

void Relay::on_start(const std::shared_ptr<const Worker>& worker, std::int64_t urgency, const char* decision) {
  if (over_) return;
  worker_ = worker;
  answer_.clear();  // of a first leg that was for nothing
  name_attempt();
  if (record_) note_start(decision);
  if (says_urgency_ && urgency != 0)
    ours_ = fmt::format(R"({},"priority":{}}})", usage_appended_ ? kUsage : "", urgency);
  seat_.wait_at(worker);
  if (worker->role != Role::Prefill) {
    leg_ = Leg::Final;
    return send(body_of_client());
  }
  leg_ = Leg::Prefill;
  if (context_.contract == PdContract::Bootstrap) {
    prefill_worker_ = worker;  // sent together with decode, whose instance is on its way to us
    return;
  }
  auto body = nixl::prefill_body(body_of_client());
  if (!body) return fail(400, "unreadable body", "the request body is not a JSON object");
  leg_body_ = std::move(*body);
  send(leg_body_);
}

/// Engines find KV that they hold by this name (vLLM before 0.13), and hold that of a lost attempt for minutes. Clients
/// use one name for several requests, and ours begin from 1 with every gateway: so no name is sent twice.
void Relay::name_attempt() {
  const std::size_t digits = kNameField.size() + request_id_.size() + 1;
  fmt::format_to_n(headers_.begin() + static_cast<std::ptrdiff_t>(digits), 16, "{:016x}", context_.random());
}

void Relay::on_hand_over(const std::shared_ptr<const Worker>& decode, const char* decision) {
  if (over_) return;
  if (record_) {
    record_->prefill_instance = worker_->id;
    record_->decode_decision = decision;
  }
  worker_ = decode;
  seat_.wait_at(decode);
  leg_ = Leg::Final;
  if (prefill_worker_) return send_both();
  const net::ChunkFacts prefilled = net::read_usage(answer_);
  tally_.counted({prefilled.prompt_tokens, prefilled.cached_tokens});
  const std::string params = nixl::transfer_params(std::move(answer_));
  if (params.empty()) {
    context_.metrics.missing_transfer_params();
    return send(body_of_client());
  }
  leg_body_ = nixl::decode_body(body_of_client(), params);
  send(leg_body_);
}

// --------------------------------------------------------------------------------------------------------------------

void Relay::on_head(int status, const net::HeaderFields& headers, std::int64_t content_length) {
  if (over_) return;
  heard_ = now();
  status_ = status;
  const auto load = worker_->load_reports ? telemetry::read_orca(headers.get("endpoint-load-metrics")) : std::nullopt;
  if (load) context_.control.gauges(worker_->id, *load, now());
  if (leg_ == Leg::Prefill && status == 200) return;
  if (denied_model(status, *worker_)) return;
  if (status != 200) drop_prefill_leg();
  leg_ = Leg::Final;  // an error of the prefill leg goes to the client as it is
  whole_left_ = content_length;
  const std::string_view type = headers.get("Content-Type");
  events_ = status == 200 && net::is_type(type, "text/event-stream");
  std::string extra;
  extra.reserve(96);
  net::append(extra, {"X-Request-Id: ", request_id_, "\r\n"});
  if (events_) extra += "Cache-Control: no-cache\r\n";
  if (status != 200) append_passed_back(extra, headers);
  energy_asked_ = energy_asked_ && status == 200 && (!events_ || net::is_completion(path_));
  if (events_) reader_ = std::make_unique<EventReader>();
  if (events_ || energy_asked_) {
    type_ = type;
    head_ = std::move(extra);
    head_waits_ = true;
    return;
  }
  begun_ = true;
  if (status == 200 && net::is_completion(path_)) {  // its first byte says whether this is an answer at all
    type_ = type;
    head_ = std::move(extra);
    whole_waits_ = true;
    return;
  }
  begin_whole(type, extra);
}

void Relay::begin_whole(std::string_view type, std::string_view extra) {
  std::optional<std::uint64_t> length;
  if (whole_left_ >= 0) length = static_cast<std::uint64_t>(whole_left_);
  exchange_->begin(status_, type, extra, length);
}

void Relay::begin_stream() {
  if (!std::exchange(head_waits_, false)) return;
  exchange_->begin(status_, type_, head_, std::nullopt);
  begun_ = true;
}

/// No byte of an answer has come: the request waits in the engine, or its prompt is being computed.
void Relay::on_withdraw() {
  const bool taken = !over_ && call_ && stream_ && leg_ == Leg::Final && !begun_ && !prefill_leg_ &&
                     worker_->role == Role::Colocated && (status_ == 0 || status_ == 200);
  if (taken) take_back();
  context_.control.withdrawn(request_.id, taken);
}

bool Relay::denied_model(int status, const Worker& worker) {
  if (status != 404 || !net::is_completion(path_)) return false;
  context_.denied(worker.id);
  return try_another(worker.id, false);
}

bool Relay::try_another(InstanceId lost, bool sent) {
  if (begun_ || net::steady_now() - request_.arrival >= context_.first_byte_timeout) return false;
  if (sent ? std::exchange(sent_again_, true) : ++refused_ > kRefusalsMost) return false;
  context_.metrics.retried();
  take_back();
  context_.control.bounced(request_.id, lost, sent);
  return true;
}

void Relay::take_back() {
  if (call_) call_->cancel();
  call_.reset();
  drop_prefill_leg();
  prefill_worker_.reset();
  seat_.leave();
  context_.relays.erase(this);
  leg_ = Leg::None;
  head_waits_ = events_ = unseen_ = false;
  for (std::string* said : {&answer_, &held_, &carry_}) said->clear();
  tally_ = TokenTally(context_.objectives.itl_limits(request_.tier));
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
  relay_whole(bytes);
}

/// As far as its two ends show.
bool Relay::is_object_so_far(std::string_view bytes) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const auto first = bytes.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return true;
  if (last_of_whole_ == 0 && bytes[first] != '{') return false;
  last_of_whole_ = bytes[bytes.find_last_not_of(kSpaces)];
  return true;
}

void Relay::no_answer(const char* reason, std::string_view message) {
  if (call_) call_->cancel();
  context_.metrics.worker_failure(worker_->endpoint->url);
  fail(502, reason, message);
}

void Relay::no_object() { no_answer("engine's answer is no JSON object", "the engine's answer is not a JSON object"); }

void Relay::relay_whole(std::string_view bytes) {
  const bool judged = status_ == 200 && net::is_completion(path_);
  if (judged && !is_object_so_far(bytes)) return no_object();
  // Once the client has all bytes of the length that it was promised, it is too late to break off.
  const bool last = whole_left_ >= 0 && static_cast<std::int64_t>(bytes.size()) >= whole_left_;
  if (judged && last && last_of_whole_ != '}') return no_object();
  if (judged && whole_waits_ && begins_with_error(bytes))
    return no_answer("the engine answered 200 with an error", "the engine answered with an error");
  if (std::exchange(whole_waits_, false)) begin_whole(type_, head_);
  if (head_waits_) {  // the client asks for its energy
    held_.append(bytes);
    if (held_.size() > kHeldMax) {
      energy_asked_ = false;
      begin_stream();
      exchange_->write(std::exchange(held_, {}));
    }
  } else {
    exchange_->write(bytes);
  }
  if (status_ == 200) read_usage_of_whole(bytes);
}

/// To a decode engine the KV that comes from its prefill engine is cached: only that one says what was.
void Relay::take_usage(const net::ChunkFacts& facts) {
  const std::int32_t cached = worker_->role == Role::Decode ? -1 : facts.cached_tokens;
  tally_.counted({facts.prompt_tokens, cached, facts.reasoning_tokens, facts.completion_tokens});
}

/// Usage may lie anywhere in the answer, and begin in one read and end in the next.
void Relay::read_usage_of_whole(std::string_view bytes) {
  const auto look = [this](std::string_view text) { take_usage(net::read_usage(text)); };
  const bool first = carry_.empty();
  if (!first) look(carry_.append(bytes.substr(0, kCarry)));
  if (first || bytes.size() > kCarry) look(bytes);
  if (whole_left_ >= 0) whole_left_ -= static_cast<std::int64_t>(bytes.size());
  if (whole_left_ == 0) return;  // that was all
  if (first || bytes.size() > kCarry) {
    carry_.assign(bytes.substr(bytes.size() - std::min(bytes.size(), kCarry)));
  } else if (carry_.size() > kCarry) {
    carry_.erase(0, carry_.size() - kCarry);
  }
}

void Relay::relay_events(std::string_view bytes) {
  auto& [parser, chunks] = *reader_;
  parser.feed(bytes);
  std::size_t from = parser.complete_bytes();  // of what has not been relayed yet
  std::size_t begin = from;                    // of the event that comes next
  if (!kept_back_) relay(bytes.substr(0, from));
  const bool typed = !net::is_completion(path_);
  for (;;) {
    // Nearly all events differ in nothing but their token's text.
    if (const auto ahead = chunks.tokens_ahead(parser.plain_rest()); ahead.tokens > 0) {
      parser.pass(ahead.bytes);
      tokens_came(ahead.tokens);
      begin = parser.complete_bytes();
      kept_back_ = false;
    }
    const auto event = parser.next();
    if (!event) break;
    const net::ChunkFacts facts = typed ? net::read_typed_event(event->type, event->data) : chunks.read(event->data);
    tokens_came(facts.tokens);
    done_seen_ = done_seen_ || facts.done;
    finish_seen_ = finish_seen_ || facts.finished;
    error_seen_ = error_seen_ || facts.error;
    take_usage(facts);
    const std::size_t end = parser.complete_bytes();
    const bool waits = energy_asked_ && (facts.usage_only || facts.done);
    kept_back_ = waits || (facts.usage_only && usage_asked_);  // the latter the client has not asked for
    if (kept_back_) {
      if (begin > 0) relay(bytes.substr(from, begin - from));
      if (waits) (facts.done ? held_end_ : held_).assign(begin > 0 ? "" : tail_).append(bytes, begin, end - begin);
      tail_.clear();  // its beginning, when nothing came before it
      from = end;
    }
    begin = end;
  }
  const std::size_t complete = parser.complete_bytes();
  if (complete > from) relay(bytes.substr(from, complete - from));
  tail_.append(bytes.substr(complete));
  // Lines without data are no matter to the parser, but held back with their event.
  if (!parser.overflowed() && tail_.size() <= net::SseParser::kMostEvent) return;
  call_->cancel();
  fail(502, "engine's event too large", "the engine sent an event larger than the gateway accepts");
}

/// Bytes up to the end of an event; what was held back of the first one goes before them.
void Relay::relay(std::string_view bytes) {
  if (bytes.empty()) return;
  if (tail_.empty()) return exchange_->write(bytes);
  tail_.append(bytes);
  exchange_->write(tail_);
  tail_.clear();
}

void Relay::tokens_came(std::int32_t many) {
  if (many <= 0) return;
  const bool first = tally_.count() == 0;
  tally_.tokens(many, now());
  unbooked_tokens_ += many - (first ? 1 : 0);
  if (!first) return;
  prefill_over();
  seat_.decode(request_.prompt_tokens + 1, tally_.last());
  context_.control.first_token(request_.id);
}

void Relay::on_turn() {
  now_fresh_ = false;
  seat_.grow(std::exchange(unbooked_tokens_, 0), tally_.last());
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
  events_ ? over_stream() : over_whole();
}

void Relay::on_failure(net::CallFailure failure) {
  if (over_) return;
  now_fresh_ = false;
  if (all_said() && failure != net::CallFailure::Handler) return over_early();
  call_.reset();
  if (failure == net::CallFailure::Resources) {  // no fault of the engine
    return fail(503, "no descriptors left", "the gateway is out of descriptors or ports, try again");
  }
  context_.metrics.worker_failure(worker_->endpoint->url);
  const bool sent = failure != net::CallFailure::Connect;
  if (!sent) context_.worker_down(worker_->id);
  const bool slow = failure == net::CallFailure::Timeout;
  // It may be what the engine died of: so once more, and never a third time.
  if (!slow && failure != net::CallFailure::Handler && try_another(worker_->id, sent)) return;
  fail(slow ? 504 : 502, slow ? "the engine timed out" : "the engine failed",
       fmt::format("the engine failed: {}", net::text_of(failure)));
}

}  // namespace wattle::gateway
