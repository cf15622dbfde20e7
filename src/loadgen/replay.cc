#include "loadgen/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <unordered_map>

#include "net/client.h"
#include "net/clock.h"
#include "net/openai.h"
#include "net/sse_parser.h"

namespace wattle::loadgen {

namespace {

const char* kind_of(net::CallFailure failure) {
  switch (failure) {
    case net::CallFailure::Connect:
      return "connect";
    case net::CallFailure::Resources:
      return "no descriptors";
    case net::CallFailure::Send:
      return "send";
    case net::CallFailure::Response:
      return "cut off";
    case net::CallFailure::Malformed:
    case net::CallFailure::Framing:
    case net::CallFailure::Header:
    case net::CallFailure::Coding:
      return "no answer to be read";
    case net::CallFailure::Timeout:
      return "timeout";
    case net::CallFailure::Handler:
      return "internal";
  }
  return "";
}

class Run;

/// One request under way.
class Shot final : public net::ResponseHandler {
 public:
  Shot(Run& run, const ReplayRow& row, std::int64_t id, std::string text, Instant now);
  void on_head(int status, const net::HeaderFields& headers, std::int64_t) override {
    status_ = status;
    events_ = net::is_type(headers.get("Content-Type"), "text/event-stream");
  }
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_failure(net::CallFailure failure) override { over(Fate::Failed, kind_of(failure)); }
  /// Its call has been cancelled; no callbacks follow.
  void cut_off() { over(Fate::Cancelled, "interrupted"); }
  [[nodiscard]] bool is_over() const { return over_; }

  std::string body;

 private:
  void over(Fate fate, const std::string& kind);

  Run& run_;
  Outcome outcome_;
  net::SseParser parser_;
  Instant last_;
  int status_ = 0;
  bool events_ = false;
  bool done_ = false;
  bool error_ = false;
  bool over_ = false;
};

class Run {
 public:
  Run(const std::function<std::optional<ReplayRow>()>& rows, const ReplayOptions& options,
      std::shared_ptr<const net::Endpoint> endpoint)
      : options_(options), rows_(rows), endpoint_(std::move(endpoint)), statistics_(options.slo) {}

  ReplayReport go(const std::function<void(const ReplayProgress&)>& progress) {
    net::ClientOptions client;
    client.head_timeout = options_.request_timeout;
    client.body_timeout = options_.request_timeout;
    const Instant begin = net::steady_now();
    auto all_over = all_over_.get_future();
    loop_.post([this, client, begin] {
      client_ = std::make_unique<net::HttpClient>(loop_, client);
      begin_ = begin;
      begun_ = true;
      next_ = rows_();
      pump();
    });
    if (progress) {
      loop_.every(Span::ms(200), [this, &progress, begin] {
        progress({Instant((net::steady_now() - begin).ns()), statistics_.summary()});
      });
    }
    if (options_.ending) loop_.every(Span::ms(100), [this] { look(); });
    all_over.wait();
    loop_.run([this] { client_.reset(); });
    loop_.stop();
    ReplayReport report;
    report.summary = statistics_.summary();
    report.curves = statistics_.curves();
    report.failures = failures_;
    report.wall_s = (net::steady_now() - begin).seconds();
    report.latest_start = latest_start_;
    report.interrupted = interrupted_;
    report.sent = sent_;
    if (progress) progress({Instant((net::steady_now() - begin).ns()), statistics_.summary()});
    return report;
  }

  // Loop thread only from here.
  void record(const Outcome& outcome, const std::string& kind) {
    under_way_.erase(outcome.request.id.value());
    statistics_.outcome(outcome);
    if (outcome.fate != Fate::Finished) ++failures_[kind];
    finish_if_done();
  }
  void gap(Span span, bool good) { statistics_.add_gap(span, 1, good ? 1 : 0); }
  [[nodiscard]] const ReplayOptions& options() const { return options_; }

 private:
  [[nodiscard]] Instant due() const { return begin_ + Span::from_seconds(next_->at.seconds() / options_.speed); }
  /// Ends the replay if that was requested.
  void look() {
    if (done_ || !begun_) return;
    const Ending ending = options_.ending();
    if (ending == Ending::None) return;
    const Instant now = net::steady_now();
    if (!cut_off_at_) {
      cut_off_at_ = now + options_.drain;
      interrupted_ = next_.has_value();
      next_.reset();
    }
    if (ending == Ending::AtOnce || now >= *cut_off_at_) cut_off();
    finish_if_done();
  }
  void cut_off() {
    const auto all = std::exchange(under_way_, {});
    interrupted_ = interrupted_ || !all.empty();
    for (const auto& [id, one] : all) {
      one.call->cancel();
      one.shot->cut_off();
    }
  }
  void pump() {
    while (next_) {
      const Instant now = net::steady_now();
      if (now < due()) {
        loop_.after(due() - now, [this] { pump(); });
        return;
      }
      latest_start_ = std::max(latest_start_, now - due());
      fire(now);
      next_ = rows_();
    }
    finish_if_done();
  }
  /// Prompts are equal to no other's, of no other replay either, where their content is not known to be.
  [[nodiscard]] std::string body_of(const ReplayRow& row) {
    const std::uint64_t own = hash_of(salt_, static_cast<std::uint64_t>(statistics_.arrived()));
    const std::int32_t most = options_.max_tokens > 0 ? options_.max_tokens : row.output_tokens;
    return completion_body({options_.form, options_.model, {row.prompt_tokens, row.content, own}, most});
  }
  void fire(Instant now) {
    const std::int64_t id = statistics_.arrived();
    const auto shot = std::make_shared<Shot>(*this, *next_, id, body_of(*next_), now);
    statistics_.add_arrivals();
    sent_ = next_->at - Instant() + Span::ns(1);
    std::string headers = "Content-Type: application/json\r\n";
    if (options_.max_tokens > 0) headers += fmt::format("X-Wattle-Output-Tokens: {}\r\n", next_->output_tokens);
    if (next_->predicted_tokens > 0) {
      headers += fmt::format("X-Wattle-Predicted-Output-Tokens: {}\r\n", next_->predicted_tokens);
    }
    auto call = client_->send(endpoint_, "POST", completion_target(options_.form), headers, shot->body, shot);
    if (!shot->is_over()) under_way_.emplace(id, UnderWay{shot, std::move(call)});
  }
  void finish_if_done() {
    if (next_ || statistics_.left() < statistics_.arrived() || done_) return;
    done_ = true;
    all_over_.set_value();
  }

  ReplayOptions options_;
  std::function<std::optional<ReplayRow>()> rows_;
  std::shared_ptr<const net::Endpoint> endpoint_;
  journal::RunStatistics statistics_;
  std::map<std::string, std::int64_t> failures_;
  std::optional<ReplayRow> next_;
  Instant begin_;
  const std::uint64_t salt_ = static_cast<std::uint64_t>(net::steady_now().ns());
  Span latest_start_;
  /// By id. Loop thread only.
  struct UnderWay {
    std::shared_ptr<Shot> shot;
    std::shared_ptr<net::Call> call;
  };
  std::unordered_map<std::int64_t, UnderWay> under_way_;
  std::optional<Instant> cut_off_at_;  ///< the time of the request to end
  bool interrupted_ = false;
  Span sent_;
  bool begun_ = false;
  bool done_ = false;
  std::promise<void> all_over_;
  std::unique_ptr<net::HttpClient> client_;
  net::Loop loop_;  // last: its thread has to end before the members it uses
};

Shot::Shot(Run& run, const ReplayRow& row, std::int64_t id, std::string text, Instant now)
    : body(std::move(text)), run_(run) {
  outcome_.request.id = RequestId(id);
  outcome_.request.arrival = now;
  outcome_.request.prompt_tokens = row.prompt_tokens;
  outcome_.request.max_tokens = run.options().max_tokens > 0 ? run.options().max_tokens : row.output_tokens;
  outcome_.dispatched = now;
  outcome_.prefill_start = now;
}

void Shot::on_body(std::string_view bytes) {
  if (!events_) return;
  const Instant now = net::steady_now();
  parser_.feed(bytes);
  while (const auto event = parser_.next()) {
    const net::ChunkFacts facts = net::read_chunk(event->data);
    done_ = done_ || facts.done;
    error_ = error_ || facts.error;
    if (facts.tokens == 0) continue;
    if (outcome_.output_tokens++ == 0) {
      outcome_.first_token = now;
    } else {
      const Span gap = now - last_;
      const bool good = !run_.options().slo.itl || gap <= *run_.options().slo.itl;
      run_.gap(gap, good);
      outcome_.longest_gap = std::max(outcome_.longest_gap, gap);
      outcome_.gaps_within_itl += good ? 1 : 0;
    }
    last_ = now;
  }
}

void Shot::on_end() {
  if (status_ != 200)
    return over(status_ == 429 || status_ == 503 ? Fate::Rejected : Fate::Failed, fmt::format("http {}", status_));
  if (error_) return over(Fate::Failed, "error event");
  if (!done_) return over(Fate::Failed, "no [DONE]");
  over(Fate::Finished, "");
}

void Shot::over(Fate fate, const std::string& kind) {
  over_ = true;
  outcome_.fate = fate;
  outcome_.left = net::steady_now();
  run_.record(outcome_, kind);
}

}  // namespace

Result<ReplayReport> replay(const std::function<std::optional<ReplayRow>()>& rows, const ReplayOptions& options,
                            const std::function<void(const ReplayProgress&)>& progress) {
  auto endpoint = net::resolve_endpoint(options.url, "--url");
  if (!endpoint) return std::unexpected(endpoint.error());
  if (!(options.speed > 0)) return bad_input("--speed", "must be above zero");
  return Run(rows, options, std::make_shared<const net::Endpoint>(std::move(*endpoint))).go(progress);
}

}  // namespace wattle::loadgen
