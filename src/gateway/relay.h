#pragma once
// One request on the data plane: relays an engine's answer to the client, counts tokens, ends in exactly one way.
// Everything happens on the exchange's loop.
#include <memory>
#include <random>
#include <string>
#include <unordered_map>

#include "gateway/charged_answer.h"
#include "gateway/length_feed.h"
#include "gateway/limits.h"
#include "gateway/metrics.h"
#include "gateway/prompt_scale.h"
#include "gateway/request_observer.h"
#include "gateway/strand.h"
#include "model/objectives.h"
#include "net/exchange.h"
#include "net/openai.h"
#include "net/sse_parser.h"

namespace wattle::gateway {

class Relay;

/// State shared by the relays of one loop.
struct RelayContext {
  net::HttpClient& client;
  ControlStrand& control;
  GatewayMetrics& metrics;
  LoopMetrics& own_metrics;
  PromptScale& prompts;
  const Objectives& objectives;
  Span first_byte_timeout;                      ///< from a request's arrival, over all engines that are tried
  std::function<void(InstanceId)> worker_down;  ///< a connection to it was refused
  std::function<void(InstanceId)> denied;       ///< it has answered 404 to a request for one of its models
  std::string_view via;                         ///< GatewayOptions::via
  PdContract contract = PdContract::Nixl;
  bool engine_priority = false;
  bool own_keys = false;   ///< clients' credentials are the gateway's and not passed on to engines
  std::mt19937_64 random;  ///< for bootstrap rooms and span ids, which must differ from those of other gateways and
                           ///< earlier processes
  RequestObserver* observer = nullptr;  ///< records how requests end; null: they are not recorded
  LengthFeed* lengths = nullptr;        ///< learns output lengths; null: they are not learned
  std::unordered_map<const Relay*, std::weak_ptr<Relay>> relays = {};  ///< those at an engine now
};

/// SGLang's prefill leg, parallel to the decode leg whose answer the client gets. It may outlive its relay: once the KV
/// cache has been handed over, it must not be stopped because the client or the relay has left.
class PrefillLeg final : public net::ResponseHandler, public std::enable_shared_from_this<PrefillLeg> {
 public:
  PrefillLeg(std::shared_ptr<Relay> relay, std::shared_ptr<const std::string> body)
      : relay_(std::move(relay)), body_(std::move(body)) {}
  /// `body` points into the one given before.
  void send(net::HttpClient& client, const std::shared_ptr<const net::Endpoint>& endpoint, std::string_view target,
            std::string_view headers, const net::Body& body);
  void detach() { relay_.reset(); }
  void cancel();

  void on_head(int status, const net::HeaderFields&, std::int64_t) override { status_ = status; }
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_failure(net::CallFailure failure) override;

 private:
  std::shared_ptr<Relay> relay_;  ///< until one of the two is over
  std::shared_ptr<const std::string> body_;
  std::shared_ptr<net::Call> call_;
  int status_ = 0;
  std::string error_;  ///< the body of an answer other than 200
};

class Relay final : public Stream, public net::ResponseHandler, public std::enable_shared_from_this<Relay> {
 public:
  /// `seat`: released when the request is over. `record`: the observer's; null: none. `features`: for
  /// RelayContext::lengths; may be null.
  Relay(RelayContext& context, std::shared_ptr<net::Exchange> exchange, const net::CompletionRequest& asked,
        const Request& request, carbon::ModelId model, std::shared_ptr<Limits::Seat> seat = nullptr,
        std::shared_ptr<RequestEnd> record = nullptr, std::unique_ptr<predict::PromptFeatures> features = nullptr);

  void start();  ///< hands the request to the control strand

  net::Loop& loop() override { return loop_; }
  void on_start(const std::shared_ptr<const Worker>& worker, std::int64_t urgency, const char* decision) override;
  void on_hand_over(const std::shared_ptr<const Worker>& decode, const char* decision) override;
  void on_refuse(control::Refusal refusal, const char* reason) override;
  void on_withdraw() override;

  void on_sent() override;
  void on_head(int status, const net::HeaderFields& headers, std::int64_t content_length) override;
  void on_body(std::string_view bytes) override;
  void on_turn() override;
  void on_end() override;
  void on_failure(net::CallFailure failure) override;
  [[nodiscard]] std::string_view log_name() const override { return request_id_; }

  /// The engine has stopped answering. If this request, too, has received nothing for that long, it is sent to another
  /// engine (once, and only if the client has had no byte) or ends with an error.
  void worker_lost(InstanceId worker, Span silence);
  /// The same for an engine whose address has changed: requests at the old address receive nothing any more.
  void worker_left(const Worker& worker);

  /// The gateway stops, and its grace period is over.
  void cut_off();

  // Results of the parallel prefill leg.
  void prefill_leg_done();
  void prefill_leg_refused(int status, const std::string& answer);
  void prefill_leg_failed(net::CallFailure failure);

 private:
  enum class Leg : std::uint8_t { None, Prefill, Final };

  [[nodiscard]] std::string_view target() const;
  void lose(const Worker& worker);
  void send(const std::string& body);
  /// The client's body with the gateway's fields added at its end.
  [[nodiscard]] net::Body with_ours(const std::string& body) const {
    if (ours_.empty()) return body;
    return {std::string_view(body).substr(0, body.rfind('}')), ours_};
  }
  void begin_stream();
  void begin_whole(std::string_view type, std::string_view extra);
  [[nodiscard]] bool is_object_so_far(std::string_view bytes);
  void no_answer(const char* reason, std::string_view message);
  void no_object();
  void relay_events(std::string_view bytes);
  void relay(std::string_view bytes);
  void relay_whole(std::string_view bytes);
  void read_usage_of_whole(std::string_view bytes);
  void take_usage(const net::ChunkFacts& facts);
  void over_whole();
  void over_stream();
  /// The last event of the stream has been sent to the client.
  [[nodiscard]] bool all_said() const { return events_ && begun_ && done_seen_; }
  void over_early();
  /// An engine that has other models than stated (it was started again with another one) has computed nothing.
  [[nodiscard]] bool denied_model(int status, const Worker& worker);
  /// Sends the request to another engine. `sent`: it may have begun at this one; then only once. False: the client has
  /// had a byte, the request's time is over, or it has been tried often enough.
  [[nodiscard]] bool try_another(InstanceId lost, bool sent);
  void send_both();
  void take_back();  ///< as if it had never been sent
  void name_attempt();
  void prefill_over();
  void drop_prefill_leg();
  void tokens_came(std::int32_t many);
  void fail(int status, const char* reason, std::string_view message);
  void end(Fate fate, const char* reason, LiveLedger::Charged charged = nullptr);
  void settle(Fate fate);
  void end_charged(const std::shared_ptr<ChargedAnswer>& answer);
  void note_start(const char* decision);
  void note_end(Fate fate, std::string_view reason);
  [[nodiscard]] LiveLedger::Charged with_record(LiveLedger::Charged charged);
  [[nodiscard]] const std::string& body_of_client() const;
  [[nodiscard]] Instant now();

  RelayContext& context_;
  net::Loop& loop_;
  std::shared_ptr<net::Exchange> exchange_;
  Request request_;
  carbon::ModelId model_;
  net::ApiPath path_;
  bool stream_;
  bool usage_asked_;     ///< by the gateway: the engine's usage is not passed to the client
  bool usage_appended_;  ///< to the body that is sent
  std::string ours_;     ///< the gateway's addition to the body, with the closing brace; may be empty
  bool says_urgency_;    ///< sends the urgency to the engine, in vLLM's field `priority`
  bool energy_asked_;    ///< requested by the client: the end of the answer waits for it
  // Placed here to save padding: malloc handles a relay of 1,024 bytes or more as a large block, which is slower.
  bool own_name_;  ///< request_id_ was made by the gateway
  bool now_fresh_ = false;
  bool kept_back_ = false;    ///< the newest event of the stream is not yet sent to the client
  bool whole_waits_ = false;  ///< the header of an answer that is not streamed waits for its first byte
  char last_of_whole_ = 0;    ///< its newest byte that is not white space
  Leg leg_ = Leg::None;
  net::PromptSize prompt_;
  std::shared_ptr<Limits::Seat> held_seat_;
  std::shared_ptr<RequestEnd> record_;                 ///< null: its end is not recorded
  std::unique_ptr<predict::PromptFeatures> features_;  ///< null: its length is not learned from
  std::string rewritten_;  ///< the client's body, if its usage options had to be changed; empty: unchanged
  std::string headers_;    ///< sent upstream on every leg
  std::int64_t prompts_;
  std::string request_id_;  ///< X-Request-Id, the client's or the gateway's
  std::shared_ptr<const Worker> worker_;
  StreamSeat seat_;
  std::shared_ptr<const Worker> prefill_worker_;  ///< of the parallel prefill leg
  std::shared_ptr<PrefillLeg> prefill_leg_;       ///< while it runs
  std::shared_ptr<const std::string> both_body_;
  std::int64_t unbooked_tokens_ = 0;  ///< relayed but not yet charged to seat_
  std::shared_ptr<net::Call> call_;
  std::string leg_body_;  ///< if it is not the client's own
  std::string answer_;    ///< of the prefill leg
  int status_ = 0;        ///< of the current leg's answer
  bool begun_ = false;    ///< the response header has been sent to the client
  bool head_waits_ =
      false;  ///< a stream's header waits for its first bytes: until then another engine may take the request
  std::string type_;
  std::string head_;
  std::string held_;      ///< of an answer that waits for its energy: all of it, or the usage chunk
  std::string held_end_;  ///< the events that end a stream
  bool events_ = false;   ///< the answer is an event stream
  bool done_seen_ = false;
  bool finish_seen_ = false;
  bool error_seen_ = false;   ///< the engine reported an error in its stream
  bool unseen_ = false;       ///< the ledger knows that its tokens are not seen
  bool sent_again_ = false;   ///< an engine was lost before its first byte and another one is tried, once
  std::int32_t refused_ = 0;  ///< number of engines that refused the connection or did not know the model
  bool over_ = false;
  struct EventReader {
    net::SseParser parser;
    net::ChunkReader chunks;
  };
  std::unique_ptr<EventReader> reader_;  ///< of a stream
  std::string tail_;   ///< an incomplete event, held back so that a broken stream ends on an event's boundary
  std::string carry_;  ///< last bytes of an answer that is not streamed, for the usage block
  std::int64_t whole_left_ = -1;  ///< bytes of such an answer still to come; below 0: its length is not stated
  TokenTally tally_;
  Instant heard_;  ///< when the engine last sent something, or the request was sent
  Instant now_;    ///< time of this turn of the loop if now_fresh_; one clock reading per read
};

}  // namespace wattle::gateway
