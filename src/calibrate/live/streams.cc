#include "calibrate/live/streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "net/client.h"
#include "net/clock.h"
#include "net/openai.h"
#include "net/sse_parser.h"

namespace wattle::calibrate {

namespace {

constexpr Span kPatience = Span::s(300);  ///< without a byte
constexpr auto kStopPeriod = std::chrono::milliseconds(50);
constexpr std::size_t kMostWords = 4096;
constexpr std::size_t kShownWords = 300;

/// Everything of one answer, and when it came.
class Whole final : public net::ResponseHandler {
 public:
  struct Answer {
    int status = 0;  ///< 0: none came
    std::string body;
    Instant end;
  };
  explicit Whole(std::string sent) : body(std::move(sent)) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) override { answer_.status = status; }
  void on_body(std::string_view bytes) override { answer_.body += bytes; }
  void on_end() override { over(); }
  void on_failure(net::CallFailure) override {
    answer_.status = 0;
    over();
  }
  std::future<Answer> future() { return promise_.get_future(); }

  const std::string body;

 private:
  void over() {
    answer_.end = net::steady_now();
    promise_.set_value(std::move(answer_));
  }
  Answer answer_;
  std::promise<Answer> promise_;
};

/// Counts requests down; loop thread only, but for the future.
struct Batch {
  std::size_t left = 0;
  std::promise<void> over;
  void one_less() {
    if (--left == 0) over.set_value();
  }
};

class Stream final : public net::ResponseHandler {
 public:
  Stream(Batch& batch, StreamRecord& record, std::string sent)
      : body(std::move(sent)), batch_(batch), record_(record) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) override { status_ = status; }
  void on_body(std::string_view bytes) override {
    if (status_ != 200) {
      if (said_.size() < kMostWords) said_ += bytes;
      return;
    }
    const Instant now = net::steady_now();
    parser_.feed(bytes);
    while (const auto event = parser_.next()) {
      const net::ChunkFacts facts = net::read_chunk(event->data);
      done_ = done_ || facts.done;
      if (facts.error && !std::exchange(error_, true)) said_ = event->data;
      if (facts.tokens > 0) record_.tokens.push_back(now);
      if (facts.finished && facts.tokens == 0) closed_at_ = now;
      if (facts.completion_tokens >= 0) {
        // vLLM's last token comes with the finish reason, and without text if it is an incomplete character.
        if (closed_at_ && std::ssize(record_.tokens) == facts.completion_tokens - 1)
          record_.tokens.push_back(*closed_at_);
        closed_at_.reset();
        record_.completion_tokens = facts.completion_tokens;
        if (facts.prompt_tokens > 0) record_.prompt_tokens = facts.prompt_tokens;
        record_.cached_tokens = facts.cached_tokens;
      }
    }
  }
  void on_end() override {
    const std::string words = said_.empty() ? "" : ": " + words_of(said_);
    over(status_ != 200 ? fmt::format("http {}{}", status_, words)
         : error_       ? "error event" + words
         : done_        ? ""
                        : "no [DONE]");
  }
  void on_failure(net::CallFailure failure) override { over(net::text_of(failure)); }
  /// Ends it from our side, if it has not ended.
  void cut_off() {
    if (ended_) return;
    if (call) call->cancel();
    over("cut off");
  }

  const std::string body;
  std::shared_ptr<net::Call> call;

 private:
  void over(std::string failure) {
    if (std::exchange(ended_, true)) return;
    record_.failure = std::move(failure);
    batch_.one_less();
  }
  Batch& batch_;
  StreamRecord& record_;
  net::SseParser parser_;
  std::string said_;                  ///< instead of tokens
  std::optional<Instant> closed_at_;  ///< a chunk that ends the answer and shows no token
  int status_ = 0;
  bool done_ = false;
  bool error_ = false;
  bool ended_ = false;
};

}  // namespace

struct StreamLoad::Impl {
  std::shared_ptr<const net::Endpoint> endpoint;
  loadgen::PromptForm form = loadgen::PromptForm::TokenIds;
  std::string model;
  std::uint64_t serial = 0;
  std::unique_ptr<net::HttpClient> client;
  net::Loop loop;  // last: its thread has to end before the members it uses

  [[nodiscard]] std::string_view target() const { return loadgen::completion_target(form); }
  [[nodiscard]] std::string body(const StreamPlan& plan, std::string of_model) {
    const loadgen::Prompt prompt{plan.prompt_tokens, plan.context, hash_of(0, serial++)};
    return loadgen::completion_body({form, std::move(of_model), prompt, plan.output_tokens, true});
  }
  Whole::Answer fetch(std::string_view method, std::string_view path, std::string sent) {
    auto whole = std::make_shared<Whole>(std::move(sent));
    auto future = whole->future();
    loop.post([&] { client->send(endpoint, method, path, "Content-Type: application/json\r\n", whole->body, whole); });
    return future.get();
  }
};

StreamLoad::StreamLoad(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StreamLoad::~StreamLoad() {
  impl_->loop.run([this] { impl_->client.reset(); });
  impl_->loop.stop();
}

Result<std::unique_ptr<StreamLoad>> StreamLoad::make(const std::string& url, loadgen::PromptForm form,
                                                     std::uint64_t serial) {
  auto endpoint = net::resolve_endpoint(url, "--url");
  if (!endpoint) return std::unexpected(endpoint.error());
  auto impl = std::make_unique<Impl>();
  impl->endpoint = std::make_shared<const net::Endpoint>(std::move(*endpoint));
  impl->form = form;
  impl->serial = serial;
  net::ClientOptions client;
  client.head_timeout = client.body_timeout = kPatience;
  client.max_idle_per_endpoint = 4096;
  impl->loop.run([&] { impl->client = std::make_unique<net::HttpClient>(impl->loop, client); });
  return std::unique_ptr<StreamLoad>(new StreamLoad(std::move(impl)));
}

Result<StreamLoad::Served> StreamLoad::served() {
  const auto answer = impl_->fetch("GET", "/v1/models", "");
  const std::string where = impl_->endpoint->url + "/v1/models";
  if (answer.status == 0) return external_failure(where, "no answer; is the engine running?");
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  if (answer.status != 200 || !json.is_object() || !json.contains("data") || !json["data"].is_array() ||
      json["data"].empty() || !json["data"][0].is_object() || json["data"][0].value("id", "").empty()) {
    return external_failure(where, fmt::format("status {} and no model; name one with --model", answer.status));
  }
  const auto whole = [](const nlohmann::json& in, const char* key) {
    const auto found = in.is_object() ? in.find(key) : in.end();
    return found != in.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  Served served{json["data"][0]["id"].get<std::string>(), whole(json["data"][0], "max_model_len")};
  if (served.context_tokens > 0) return served;
  // llama.cpp: of one of its slots.
  const auto props = impl_->fetch("GET", "/props", "");
  const auto said = nlohmann::json::parse(props.body, nullptr, false);
  if (props.status == 200 && said.is_object() && said.contains("default_generation_settings")) {
    served.context_tokens = whole(said["default_generation_settings"], "n_ctx");
  }
  return served;
}

Result<std::string> StreamLoad::page(const std::string& path) {
  auto answer = impl_->fetch("GET", path, "");
  const std::string where = impl_->endpoint->url + path;
  if (answer.status == 0) return external_failure(where, "no answer; is the engine running?");
  if (answer.status != 200) return external_failure(where, fmt::format("status {}", answer.status));
  return std::move(answer.body);
}

void StreamLoad::use_model(const std::string& model) { impl_->model = model; }

PromptContent StreamLoad::context(std::int32_t tokens) {
  std::vector<std::uint64_t> ids(static_cast<std::size_t>(tokens / kTextBlockTokens));
  for (auto& id : ids) id = hash_of(1, impl_->serial++);
  return chained(kTextBlockTokens, ids);
}

std::vector<StreamRecord> StreamLoad::run(std::span<const StreamPlan> plans, const std::atomic<bool>& stop) {
  std::vector<StreamRecord> records(plans.size());
  if (plans.empty()) return records;
  Batch batch;
  batch.left = plans.size();
  std::vector<std::shared_ptr<Stream>> streams;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    records[i].prompt_tokens = plans[i].prompt_tokens;
    records[i].tokens.reserve(static_cast<std::size_t>(plans[i].output_tokens) + 1);
    streams.push_back(std::make_shared<Stream>(batch, records[i], impl_->body(plans[i], impl_->model)));
  }
  auto over = batch.over.get_future();
  bool cut = false;  // loop thread only, as is `here`
  auto here = std::make_shared<bool>(true);
  const auto start = [&, this](std::size_t i) {
    if (cut) return;
    records[i].sent = net::steady_now();
    auto& stream = *streams[i];
    stream.call = impl_->client->send(impl_->endpoint, "POST", impl_->target(), "Content-Type: application/json\r\n",
                                      stream.body, streams[i]);
  };
  impl_->loop.post([&] {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (plans[i].at <= Span()) start(i);
    }
  });
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].at > Span()) {
      impl_->loop.after(plans[i].at, [&start, i, here] {
        if (*here) start(i);
      });
    }
  }
  while (over.wait_for(kStopPeriod) != std::future_status::ready) {
    if (!stop) continue;
    impl_->loop.run([&] {
      cut = true;
      for (auto& stream : streams) stream->cut_off();
    });
  }
  // Pending timers are cancelled, and the loop no longer uses this object.
  impl_->loop.run([&] { *here = false; });
  return records;
}

std::optional<Span> StreamLoad::refusal(std::int32_t prompt_tokens) {
  std::string body = impl_->body({{}, prompt_tokens, 1}, impl_->model + "-none");
  const Instant begin = net::steady_now();
  const auto answer = impl_->fetch("POST", impl_->target(), std::move(body));
  if (answer.status < 400 || answer.status >= 500) return std::nullopt;
  return answer.end - begin;
}

std::string words_of(std::string_view body) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  std::string words;
  const auto take = [&](const nlohmann::json& in, const char* key) {
    const auto found = in.is_object() ? in.find(key) : in.end();
    if (words.empty() && found != in.end() && found->is_string()) words = found->get<std::string>();
  };
  if (json.is_object()) {
    take(json.value("error", nlohmann::json()), "message");
    for (const char* key : {"error", "message", "detail"}) take(json, key);
  }
  if (words.empty()) words = body;
  std::ranges::replace_if(
      words, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  if (words.size() > kShownWords) words = words.substr(0, kShownWords) + "...";
  return words;
}

}  // namespace wattle::calibrate
