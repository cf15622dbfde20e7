#pragma once
// Tests only: a gateway between a raw client and an engine that misbehaves on request.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/gateway.h"
#include "net/await_test.h"
#include "net/raw_client_test.h"
#include "net/server.h"

namespace wattle::gateway {

inline std::string padded(std::string text) {
  text.reserve(text.size() + net::RequestParser::kBodyPadding);
  return text;
}

/// A small engine: five tokens, one chunk each; its `user` field picks misbehaviour.
struct Upstream {
  net::LoopPool pool{1};
  std::mutex mutex;
  std::vector<nlohmann::json> seen;
  std::vector<std::string> request_ids;
  std::vector<std::string> paths;
  std::vector<std::string> headers;  ///< each request's, a line a field
  std::atomic<int> gone{0};
  std::vector<std::shared_ptr<net::Exchange>> parked;  ///< on the loop only
  std::atomic<int> parked_count{0};
  std::atomic<bool> answers_health;
  std::atomic<int> probes{0};
  std::atomic<bool> hangs{false};                    ///< it takes requests and answers none
  std::atomic<bool> drops{false};                    ///< it breaks the connection instead
  std::atomic<bool> other_model{false};              ///< it lists another model than `m`, and knows only that one
  std::vector<std::shared_ptr<net::Exchange>> deaf;  ///< probes that are not answered; on the loop only
  std::unique_ptr<net::HttpServer> server;

  explicit Upstream(bool healthy = true) : answers_health(healthy) {
    server = std::move(
        *net::HttpServer::listen(pool, {}, [this](std::shared_ptr<net::Exchange> e) { handle(std::move(e)); }));
  }
  ~Upstream() {
    server.reset();
    pool.stop();
    parked.clear();
    deaf.clear();
  }
  [[nodiscard]] int seen_count() {
    const std::lock_guard lock(mutex);
    return static_cast<int>(seen.size());
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()); }
  /// The same place in other words: another worker.
  [[nodiscard]] std::string other_url() const { return "http://127.1:" + std::to_string(server->port()); }
  /// A request's name, without the suffix of this attempt.
  static std::string_view name_of(std::string_view id) { return id.substr(0, id.rfind('-')); }
  static std::string token(int i) {
    return R"(data: {"choices":[{"index":0,"delta":{"content":" t)" + std::to_string(i) + R"("}}]})" + "\n\n";
  }
  static void finish(const std::shared_ptr<net::Exchange>& e, const std::string& rest) {
    e->write(rest + "\n\ndata: [DONE]\n\n");
    e->finish();
  }
  /// What is no JSON object, where that is asked for.
  static const char* no_object(const std::string& mode) {
    if (mode == "empty") return "";
    if (mode == "words") return "busy, come again";
    if (mode == "error-in-200") return R"( {"error": {"message":"EngineCore died","code":500}})";
    return mode == "half" ? R"({"choices":[{"message":)" : nullptr;
  }
  /// An event of 3 MiB, or the first 17 of one without end, in one line of data or many of comment.
  static void write_large(net::Exchange& e, const std::string& mode) {
    if (mode == "big") {
      return e.write(R"(data: {"choices":[{"index":0,"delta":{"content":")" + std::string(3 << 20, 'y') + "\"}}]}\n\n");
    }
    const std::string line(1 << 20, 'z');
    e.write(mode == "endless" ? "data: " : ": ");
    for (int i = 0; i < 17; ++i) e.write(line + (mode == "endless" ? "" : "\n: "));
  }
  static int words(const std::string& mode) { return mode == "only-done" || mode == "no-words" ? 0 : 5; }
  /// A stream of /v1/responses; vLLM's last event has the type of the whole behind those of its parts.
  static void stream_response(net::Exchange& e, bool cut) {
    e.begin(200, "text/event-stream");
    e.write("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n");
    if (!cut) {
      e.write(
          "event: response.completed\ndata: {\"response\":{\"output\":[{\"type\":\"message\"}],\"usage\":"
          "{\"input_tokens\":11,\"output_tokens\":3}},\"type\":\"response.completed\"}\n\n");
    }
    e.finish();
  }
  void handle(std::shared_ptr<net::Exchange> e) {
    if (e->path() == "/health") ++probes;
    if (e->path() == "/health" && !answers_health) {
      deaf.push_back(e);
      return;
    }
    if (e->path() == "/health") return e->respond(200, "text/plain", "ok");
    if (e->path() == "/v1/models") {
      return e->respond(200, "application/json", other_model ? R"({"data":[{"id":"q"}]})" : R"({"data":[{"id":"m"}]})");
    }
    const auto body = e->path() == "/form" ? nlohmann::json::object() : nlohmann::json::parse(e->body());
    {
      const std::lock_guard lock(mutex);
      seen.push_back(body);
      request_ids.emplace_back(e->headers().get("X-Request-Id"));
      paths.emplace_back(e->target());
      headers.emplace_back();
      for (std::size_t i = 0; i < e->headers().size(); ++i) {
        const auto field = e->headers().at(i);
        headers.back().append(field.name).append(": ").append(field.value).append("\n");
      }
    }
    if (hangs) return parked.push_back(e);
    if (e->path() == "/v1/responses" && body.value("stream", false)) {
      return stream_response(*e, body.value("user", "") == "cut");
    }
    if (!e->path().ends_with("/completions")) return e->respond(200, "application/json", R"({"data":[1]})");
    const std::string mode = body.value("user", "");
    if (drops || mode == "die") return e->drop();
    if (other_model) return e->respond(404, "application/json", R"({"error":{"message":"no model m here"}})");
    if (mode == "bare") return e->respond(204, "", "");
    if (mode == "not-modified") {
      e->begin(304, "");
      return e->finish();
    }
    if (mode == "who") {
      return e->respond(401, "application/json", "{}", "WWW-Authenticate: Bearer realm=\"e\"\r\nX-Own: 1\r\n");
    }
    if (mode == "elsewhere") return e->respond(307, "", "", "Location: /other\r\n");
    if (mode == "refuse") return e->respond(422, "application/json", R"({"error":{"message":"no"}})");
    if (const char* const said = no_object(mode)) return e->respond(200, "application/json", said);
    const auto same = [&](const std::string& id) { return name_of(id) == name_of(e->headers().get("X-Request-Id")); };
    const bool again = std::ranges::count_if(request_ids, same) > 1;
    if (mode == "silent" || (mode == "silent-at-first" && !again)) {
      e->on_gone([this] { ++gone; });
      return parked.push_back(e);
    }
    if (body.value("max_tokens", 0) == 1 && body.contains("kv_transfer_params")) {
      if (mode == "no-params") return e->respond(200, "application/json", "{}");
      return e->respond(
          200, "application/json",
          R"({"choices":[],"kv_transfer_params":{"remote_block_ids":[[1,2]],"do_remote_prefill":true},)"
          R"("usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3}}})");
    }
    if (!body.value("stream", false)) {
      const bool asked = e->headers().get("endpoint-load-metrics-format") == "json";
      return e->respond(200, "application/json",
                        R"({"choices":[{"message":{"content":"hi"}}],"usage":{"completion_tokens":5}})",
                        asked ? "endpoint-load-metrics: JSON {\"named_metrics\": {\"kv_cache_usage_perc\": 0.5, "
                                "\"num_requests_waiting\": 3.0}}\r\n"
                              : "");
    }
    e->begin(200, "text/event-stream");
    e->write(R"(data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})"
             "\n\n");
    if (mode == "park") {
      e->write(token(0));
      e->on_gone([this] { ++gone; });
      parked.push_back(e);
      ++parked_count;
      return;
    }
    for (int i = 0; i < words(mode); ++i) e->write(token(i));
    if (mode == "big" || mode.starts_with("endless")) write_large(*e, mode);
    if (mode.starts_with("endless")) return parked.push_back(e);
    if (mode == "die-midway") {
      e->write("data: {\"cho");  // half an event
      return e->drop();
    }
    if (mode == "no-done") return e->finish();
    if (mode != "no-finish" && mode != "only-done")
      e->write("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
    if (mode == "stays-open") {
      e->write("data: [DONE]\n\n");
      return parked.push_back(e);
    }
    if (mode == "error-done") e->write("data: {\"error\":{\"message\":\"EngineCore died\",\"code\":500}}\n\n");
    if (body.contains("stream_options")) {
      const std::string usage = R"(data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":7,)"
                                R"("prompt_tokens_details":{"cached_tokens":4},)"
                                R"("completion_tokens_details":{"reasoning_tokens":2}}})";
      e->write(usage.substr(0, 20));
      if (mode != "split-usage") return finish(e, usage.substr(20));
      pool.at(0).after(Span::ms(20), [e, rest = usage.substr(20)] { finish(e, rest); });
      return;
    }
    e->write("data: [DONE]\n\n");
    e->finish();
  }
};

struct Outcomes : journal::Sink {
  std::mutex mutex;
  std::vector<Outcome> all;
  std::vector<journal::DecisionRecord> planned;
  InstanceId joined_instance = kNoInstance;
  void joined(const journal::Instance& facts) override { joined_instance = facts.id; }
  void decision(const journal::DecisionRecord& record) override {
    using enum journal::DecisionKind;
    if (record.kind == Scaling || record.kind == Phase) planned.push_back(record);
  }
  std::vector<std::string> plans;
  void plan(const journal::PlanRecord& record) override {
    plans.push_back(fmt::format("{}: {} GPUs", record.plan.reason, record.gpus));
    for (const PlanLevel& level : record.plan.levels) plans.back() += fmt::format(", {} {}", level.name, level.reason);
  }
  void outcome(const Outcome& o) override {
    const std::lock_guard lock(mutex);
    all.push_back(o);
  }
};

struct Rig {
  Outcomes sink;
  Upstream upstream;
  std::unique_ptr<Gateway> gateway;

  explicit Rig(std::vector<Role> roles = {Role::Colocated}, std::int64_t max_requests = 64,
               const std::string& step_reports = "",
               const std::function<void(GatewayOptions&, GatewayPolicies&)>& change = nullptr) {
    GatewayOptions options;
    options.models = {"m"};
    options.probe_health = false;
    options.max_requests = max_requests;
    options.unready_wait = Span();
    options.listen.limits.body_bytes = 4096;
    options.lost_after = Span::ms(300);
    for (const Role role : roles) {
      WorkerOptions worker;
      worker.url = upstream.url();
      worker.role = role;
      worker.step_reports = step_reports;
      options.workers.push_back(worker);
    }
    GatewayPolicies policies;
    policies.extrapolations = [] { return 17; };
    if (change) change(options, policies);
    auto made = Gateway::start(options, std::move(policies), sink);
    EXPECT_TRUE(made.has_value()) << made.error().message();
    gateway = std::move(*made);
  }
  static std::string post(const std::string& body, const std::string& path = "/v1/chat/completions",
                          const std::string& extra = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: h\r\n" + extra + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static std::string chat(const std::string& mode, bool stream, const std::string& extra = "") {
    return post(R"({"model":"m","messages":[{"role":"user","content":"hello there"}],"max_tokens":5,"user":")" + mode +
                    R"(","stream":)" + (stream ? "true" : "false") + "}",
                "/v1/chat/completions", extra);
  }
  std::string ask(const std::string& bytes, bool stream = false) {
    net::RawClient client(gateway->port());
    client.send(bytes);
    return stream ? client.until("0\r\n\r\n") : client.response();
  }
  /// The whole answer of the admin plane.
  std::string ask_admin(const std::string& bytes) {
    net::RawClient client(gateway->admin_port());
    client.send(bytes);
    return client.response();
  }
  std::string admin(const std::string& path) { return ask_admin("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n"); }
  static std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }
  nlohmann::json view() { return nlohmann::json::parse(body_of(admin("/workers/0"))).at("view"); }
  /// Of all outcomes, once nothing is in flight.
  std::int64_t output_tokens() {
    settled();
    std::int64_t sum = 0;
    for (const Outcome& o : sink.all) sum += o.output_tokens;
    return sum;
  }
  bool ready(int worker) {
    return admin("/workers/" + std::to_string(worker)).find("\"status\":\"ready\"") != std::string::npos;
  }
  /// Waits until nothing is in flight: an answer broken off, and one whose end the reader did not wait for, are booked
  /// when the gateway sees it.
  journal::RequestCounts settled() {
    await([&] { return gateway->counts().in_flight == 0; });
    const journal::RequestCounts counts = gateway->counts();
    EXPECT_EQ(counts.arrived, counts.finished + counts.rejected + counts.failed + counts.cancelled);
    return counts;
  }
};

}  // namespace wattle::gateway
