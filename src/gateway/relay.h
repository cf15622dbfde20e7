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

/// What the relays of one loop share.
struct RelayContext {
  net::HttpClient& client;
  ControlStrand& control;
  GatewayMetrics& metrics;
  LoopMetrics& own_metrics;
  PromptScale& prompts;
  const Objectives& objectives;
  Span first_byte_timeout;                      ///< from a request's arrival, where several engines are tried
  std::function<void(InstanceId)> worker_down;  ///< a connection to it was refused
  std::string_view via;                         ///< GatewayOptions::via
  PdContract contract = PdContract::Nixl;
  bool engine_priority = false;
  bool own_keys = false;   ///< clients' credentials are for us, not for engines
  std::mt19937_64 random;  ///< bootstrap rooms, span ids: must not meet those of another gateway, or of our last life
  RequestObserver* observer = nullptr;  ///< who hears how requests ended; null: nobody
  LengthFeed* lengths = nullptr;        ///< who learns how long answers are; null: nobody
  std::unordered_map<const Relay*, std::weak_ptr<Relay>> relays = {};  ///< at an engine now
};

/// SGLang's prefill leg, beside the decode leg that the client gets. It may outlive its relay: once the KV has been
/// handed over, nobody's leaving may stop it.
class PrefillLeg final : public net::ResponseHandler, public std::enable_shared_from_this<PrefillLeg> {
 public:
  PrefillLeg(std::shared_ptr<Relay> relay, std::shared_ptr<const std::string> body)
      : relay_(std::move(relay)), body_(std::move(body)) {}
  /// `body` lies in the one given before.
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
  std::string error_;  ///< what it answers when that is not 200
};

class Relay final : public Stream, public net::ResponseHandler, public std::enable_shared_from_this<Relay> {
 public:
  /// `seat`: let go when the request is over. `record`: the observer's; null: there is none. `features`: for
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

  /// Its engine answers nobody any more: a request that has heard nothing for that long, too, goes to another engine
  /// where the client has not had a byte, once, or ends with an error.
  void worker_lost(InstanceId worker, Span silence);
  /// The same, of one that has another address now: requests at this one hear nothing any more.
  void worker_left(const Worker& worker);

  /// The gateway stops, and has waited long enough.
  void cut_off();

  // What became of the prefill leg beside us.
  void prefill_leg_done();
  void prefill_leg_refused(int status, const std::string& answer);
  void prefill_leg_failed(net::CallFailure failure);

 private:
  enum class Leg : std::uint8_t { None, Prefill, Final };

  [[nodiscard]] std::string_view target() const;
  void lose(const Worker& worker);
  void send(const std::string& body);
  /// A client's body with our fields at its end.
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
  /// The last event of the stream has gone to the client.
  [[nodiscard]] bool all_said() const { return events_ && begun_ && done_seen_; }
  void over_early();
  /// Whatever became of it at this engine. `sent`: it may have begun there: then once. False: the client has had a
  /// byte, its time is up, or it has been tried enough.
  [[nodiscard]] bool try_another(InstanceId lost, bool sent);
  void send_both();
  void take_back();  ///< as if it had never been sent
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
  bool usage_asked_;     ///< by us: what the engine says of it is not for the client
  bool usage_appended_;  ///< to the body on its way out
  std::string ours_;     ///< what we add to a client's body, with the brace that ends it; may be empty
  bool says_urgency_;    ///< to the engine, in vLLM's field `priority`
  bool energy_asked_;    ///< by the client: the end of the answer waits for it
  // These here for their size: a relay of 1,024 bytes or more is a large one to malloc, which costs it more.
  bool own_name_;  ///< request_id_ is ours
  bool now_fresh_ = false;
  bool kept_back_ = false;    ///< the newest event of the stream, from the client
  bool whole_waits_ = false;  ///< the head of an answer that is not streamed, for its first byte
  char last_of_whole_ = 0;    ///< its newest byte that is no space
  Leg leg_ = Leg::None;
  net::PromptSize prompt_;
  std::shared_ptr<Limits::Seat> held_seat_;
  std::shared_ptr<RequestEnd> record_;                 ///< null: nobody asks how it ended
  std::unique_ptr<predict::PromptFeatures> features_;  ///< null: nobody learns from it
  std::string rewritten_;  ///< the client's body, where it says of usage what we cannot have; empty: as it came
  std::string headers_;    ///< sent upstream on every leg
  std::int64_t prompts_;
  std::string request_id_;  ///< X-Request-Id, the client's or ours
  std::shared_ptr<const Worker> worker_;
  StreamSeat seat_;
  std::shared_ptr<const Worker> prefill_worker_;  ///< of the leg beside us
  std::shared_ptr<PrefillLeg> prefill_leg_;       ///< while it runs
  std::shared_ptr<const std::string> both_body_;
  std::int64_t unbooked_tokens_ = 0;  ///< relayed and not yet in seat_
  std::shared_ptr<net::Call> call_;
  std::string leg_body_;     ///< when it is not the client's own
  std::string answer_;       ///< of the prefill leg
  int status_ = 0;           ///< of the current leg's answer
  bool begun_ = false;       ///< the client has our header
  bool head_waits_ = false;  ///< of a stream, for its first bytes: until then another engine may take the request
  std::string type_;
  std::string head_;
  std::string held_;      ///< of an answer that waits for its energy: the whole, or the usage chunk
  std::string held_end_;  ///< and what ends a stream
  bool events_ = false;   ///< the answer is an event stream
  bool done_seen_ = false;
  bool finish_seen_ = false;
  bool error_seen_ = false;   ///< the engine said in its stream that it failed
  bool unseen_ = false;       ///< the ledger knows that no token of it will be seen
  bool sent_again_ = false;   ///< an engine was lost before its first byte: once, another one is tried
  std::int32_t refused_ = 0;  ///< engines that refused the connection: none of them has seen it
  bool over_ = false;
  struct EventReader {
    net::SseParser parser;
    net::ChunkReader chunks;
  };
  std::unique_ptr<EventReader> reader_;  ///< of a stream
  std::string tail_;   ///< an event's beginning, held back so that a broken stream ends on an event's boundary
  std::string carry_;  ///< last bytes of an unstreamed answer, for the usage block
  std::int64_t whole_left_ = -1;  ///< of one, to come; below 0: its length was not said
  TokenTally tally_;
  Instant heard_;  ///< when the engine last sent something, or the request went out
  Instant now_;    ///< of this turn of the loop, where now_fresh_; one clock reading per read
};

}  // namespace wattle::gateway
