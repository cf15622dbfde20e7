// What is seen of requests: spans at a collector, whatever that does, and lines of the log.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "gateway/otlp.h"
#include "gateway/rig_test.h"
#include "net/await_test.h"
#include "net/log.h"

namespace wattle::gateway {
namespace {

constexpr const char* kCaller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

RC_GTEST_PROP(TraceContexts, AreReadAsTheyAreWritten,
              (std::uint64_t high, std::uint64_t low, std::uint64_t span, bool sampled)) {
  RC_PRE((high | low) != 0 && span != 0);
  const TraceContext context{{high, low}, span, sampled};
  RC_ASSERT(read_traceparent(traceparent(context)) == context);
}

TEST(TraceContexts, WhatIsMalformedBeginsANewTrace) {
  EXPECT_TRUE(read_traceparent(kCaller).has_value());
  EXPECT_EQ(traceparent(*read_traceparent(kCaller)), kCaller);
  EXPECT_TRUE(read_traceparent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more").has_value());
  EXPECT_FALSE(read_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe")->sampled);
  for (const char* wrong : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
                            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
                            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
                            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01",
                            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
                            "00-0af7651916cd43dd8448eb211c80319 -b7ad6b7169203331-01"}) {
    EXPECT_FALSE(read_traceparent(wrong).has_value()) << wrong;
  }
}

/// An OpenTelemetry collector.
struct Collector {
  net::LoopPool pool{1};
  std::mutex mutex;
  std::vector<nlohmann::json> spans;
  std::string target;
  std::string type;
  std::atomic<bool> hangs{false};
  std::atomic<int> status{200};
  std::string answer = "{}";
  std::vector<std::shared_ptr<net::Exchange>> parked;  ///< on the loop only
  std::unique_ptr<net::HttpServer> server;

  Collector() {
    server = std::move(
        *net::HttpServer::listen(pool, {}, [this](std::shared_ptr<net::Exchange> e) { handle(std::move(e)); }));
  }
  ~Collector() {
    server.reset();
    pool.stop();
    parked.clear();
  }
  void handle(std::shared_ptr<net::Exchange> e) {
    if (hangs) return parked.push_back(std::move(e));
    const auto body = nlohmann::json::parse(e->body());
    const std::lock_guard lock(mutex);
    target = e->target();
    type = e->headers().get("Content-Type");
    if (status == 200) {
      for (const auto& span : body["resourceSpans"][0]["scopeSpans"][0]["spans"]) spans.push_back(span);
    }
    e->respond(status, "application/json", answer);
  }
  std::vector<nlohmann::json> once(std::size_t count) {
    await([&] {
      const std::lock_guard lock(mutex);
      return spans.size() >= count;
    });
    const std::lock_guard lock(mutex);
    return spans;
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()); }
};

std::function<void(GatewayOptions&, GatewayPolicies&)> traced(const std::string& url, double sample = 1.0,
                                                              std::size_t queue = 4096,
                                                              Span export_timeout = Span::s(20)) {
  return [=](GatewayOptions& options, GatewayPolicies&) {
    options.observer.traces_endpoint = url;
    options.observer.traces_sample = sample;
    options.observer.queue = queue;
    options.observer.flush_period = Span::ms(5);
    options.observer.export_timeout = export_timeout;
  };
}

nlohmann::json attribute(const nlohmann::json& span, const std::string& key) {
  for (const auto& one : span["attributes"]) {
    if (one["key"] == key) return one["value"].begin().value();
  }
  return nullptr;
}

/// Of the newest request that the engine has seen.
std::string header_at_engine(Rig& rig, const std::string& name) {
  const std::lock_guard lock(rig.upstream.mutex);
  const std::string& all = rig.upstream.headers.back();
  const std::size_t at = all.find(name + ": ");
  if (at == std::string::npos) return "";
  return all.substr(at + name.size() + 2, all.find('\n', at) - at - name.size() - 2);
}

std::int64_t counter(Rig& rig, const std::string& name) {
  const std::string text = rig.admin("/metrics");
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 2));
}

TEST(Observer, ASpanOfARequestStandsBetweenItsCallersAndItsEngines) {
  Collector collector;
  Rig rig({Role::Colocated}, 64, "", traced(collector.url()));
  rig.ask(Rig::chat("", true,
                    std::string("traceparent: ") + kCaller +
                        "\r\ntracestate: vendor=1\r\nX-Request-Id: abc\r\nX-Wattle-Tenant: shop\r\n"),
          true);
  const auto span = collector.once(1).front();
  EXPECT_EQ(collector.target, "/v1/traces");
  EXPECT_EQ(collector.type, "application/json");
  EXPECT_EQ(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(span["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(span["traceState"], "vendor=1");
  const std::string own = span["spanId"];
  EXPECT_NE(own, "b7ad6b7169203331");
  EXPECT_EQ(header_at_engine(rig, "traceparent"), "00-0af7651916cd43dd8448eb211c80319c-" + own + "-01");
  EXPECT_EQ(header_at_engine(rig, "tracestate"), "vendor=1");
  const std::string& all = rig.upstream.headers.back();
  EXPECT_EQ(all.find("traceparent"), all.rfind("traceparent")) << "said once";
  EXPECT_EQ(span["kind"], 2);
  EXPECT_EQ(span["name"], "chat m");
  EXPECT_FALSE(span.contains("status"));
  EXPECT_LE(std::stoll(span["startTimeUnixNano"].get<std::string>()),
            std::stoll(span["endTimeUnixNano"].get<std::string>()));
  EXPECT_GT(std::stoll(span["startTimeUnixNano"].get<std::string>()), 1'600'000'000'000'000'000);
  EXPECT_EQ(attribute(span, "gen_ai.request.model"), "m");
  EXPECT_EQ(attribute(span, "gen_ai.operation.name"), "chat");
  EXPECT_EQ(attribute(span, "gen_ai.request.max_tokens"), "5");
  EXPECT_EQ(attribute(span, "gen_ai.usage.input_tokens"), "9") << "the engine's count";
  EXPECT_EQ(attribute(span, "gen_ai.usage.output_tokens"), "7");
  EXPECT_EQ(attribute(span, "gen_ai.usage.cache_read.input_tokens"), "4");
  EXPECT_EQ(attribute(span, "server.address"), "127.0.0.1");
  EXPECT_EQ(attribute(span, "server.port"), std::to_string(rig.upstream.server->port()));
  EXPECT_EQ(attribute(span, "http.response.status_code"), "200");
  EXPECT_EQ(attribute(span, "wattle.request_id"), "abc");
  EXPECT_EQ(attribute(span, "wattle.tenant"), "shop");
  EXPECT_EQ(attribute(span, "wattle.instance"), "0");
  EXPECT_EQ(attribute(span, "wattle.attempts"), "1");
  EXPECT_EQ(attribute(span, "wattle.fate"), "finished");
  EXPECT_FALSE(attribute(span, "wattle.decision").get<std::string>().empty());
  EXPECT_GE(attribute(span, "wattle.queue_ms").get<double>(), 0.0);
  EXPECT_EQ(attribute(span, "wattle.energy_j"), nullptr) << "nobody metered it: unknown, not 0";
  EXPECT_EQ(attribute(span, "wattle.energy_meters"), "none");
}

TEST(Observer, BothLegsOfARequestAreItsSpansChildren) {
  Collector collector;
  Rig rig({Role::Prefill, Role::Decode}, 64, "", traced(collector.url()));
  rig.ask(Rig::chat("", true, std::string("traceparent: ") + kCaller + "\r\n"), true);
  const auto span = collector.once(1).front();
  ASSERT_EQ(rig.upstream.headers.size(), 2U);
  for (const std::string& headers : rig.upstream.headers) {
    EXPECT_NE(headers.find("traceparent: 00-0af7651916cd43dd8448eb211c80319c-" + span["spanId"].get<std::string>()),
              std::string::npos)
        << headers;
  }
  EXPECT_EQ(attribute(span, "wattle.prefill_instance"), "0");
  EXPECT_EQ(attribute(span, "wattle.instance"), "1");
  EXPECT_FALSE(attribute(span, "wattle.decode_decision").get<std::string>().empty());
}

TEST(Observer, TracesBeginHereWhereNoneIsSaid) {
  Collector collector;
  Rig rig({Role::Colocated}, 64, "", traced(collector.url()));
  rig.ask(Rig::chat("", false));
  rig.ask(Rig::chat("", false, "traceparent: 00-broken\r\ntracestate: vendor=1\r\n"));
  EXPECT_EQ(header_at_engine(rig, "tracestate"), "") << "of a trace that is not this one";
  std::set<std::string> traces;
  for (const auto& span : collector.once(2)) {
    EXPECT_FALSE(span.contains("parentSpanId"));
    traces.insert(span["traceId"]);
  }
  EXPECT_EQ(traces.size(), 2U);
}

TEST(Observer, TheCallerDecidesElseTheShareDoes) {
  Collector collector;
  Rig rig({Role::Colocated}, 64, "", traced(collector.url(), 0.0));
  rig.ask(Rig::chat("", false));
  EXPECT_TRUE(header_at_engine(rig, "traceparent").ends_with("-00")) << "engines do not record it either";
  rig.ask(Rig::chat("", false, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n"));
  EXPECT_TRUE(header_at_engine(rig, "traceparent").ends_with("-00"));
  rig.ask(Rig::chat("", false, std::string("X-Request-Id: mine\r\ntraceparent: ") + kCaller + "\r\n"));
  const auto spans = collector.once(1);
  EXPECT_EQ(spans.size(), 1U);
  EXPECT_EQ(attribute(spans.front(), "wattle.request_id"), "mine");
}

TEST(Observer, ACollectorWithoutAnAddressCostsSpansNotTheGateway) {
  Rig rig({Role::Colocated}, 64, "", traced("http://nowhere.invalid:4318", 1.0, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
  rig.settled();
  await([&] { return rig.admin("/metrics").find("wattle_gateway_spans_dropped_total 2") != std::string::npos; });
}

TEST(Observer, WhatFailedIsAnErrorWhatWasRefusedIsNot) {
  Collector collector;
  Rig rig({Role::Colocated}, 64, "", traced(collector.url()));
  rig.ask(Rig::chat("die", true));
  const auto failed = collector.once(1)[0];
  EXPECT_EQ(failed["status"]["code"], 2);
  EXPECT_EQ(failed["status"]["message"], "the engine failed");
  EXPECT_EQ(attribute(failed, "error.type"), "502");
  EXPECT_EQ(attribute(failed, "wattle.fate"), "failed");
  const std::string answer = rig.ask(Rig::post(R"({"model":"other","messages":[]})"));
  const auto refused = collector.once(2)[1];
  EXPECT_FALSE(refused.contains("status"));
  EXPECT_EQ(attribute(refused, "http.response.status_code"), "404");
  EXPECT_EQ(attribute(refused, "wattle.attempts"), "0");
  EXPECT_NE(answer.find("X-Request-Id: " + attribute(refused, "wattle.request_id").get<std::string>()),
            std::string::npos)
      << answer;
  EXPECT_EQ(attribute(refused, "server.address"), nullptr);
}

/// Of a worker: each reading says so many more joules.
struct RisingMeter {
  net::LoopPool pool{1};
  std::atomic<std::int64_t> energy_uj{0};
  std::unique_ptr<net::HttpServer> server;
  explicit RisingMeter(const std::string& engine) {
    server = std::move(*net::HttpServer::listen(pool, {}, [this, engine](const std::shared_ptr<net::Exchange>& e) {
      const nlohmann::json reading{{"engine", engine}, {"energy_uj", energy_uj += 1'000'000}};
      e->respond(200, "application/json", nlohmann::json{{"engines", {reading}}, {"started_unix_us", 77}}.dump());
    }));
  }
  ~RisingMeter() {
    server.reset();
    pool.stop();
  }
};

TEST(Observer, ARefusalAfterALostAttemptCostsTheSameEverywhere) {
  Collector collector;
  std::unique_ptr<RisingMeter> meter;
  Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies& policies) {
    traced(collector.url())(options, policies);
    options.observer.log_requests = true;
    options.probe_health = true;
    options.probe_timeout = Span::ms(50);
    options.health_period = Span::ms(20);
    options.lost_after = Span::ms(100);
    options.unready_wait = Span::ms(50);
    meter = std::make_unique<RisingMeter>(
        net::engine_name("", options.workers.front().url, "").value_or(options.workers.front().url));
    options.agents.urls = {"http://127.0.0.1:" + std::to_string(meter->server->port())};
    options.agents.poll_period = Span::ms(5);
  });
  await([&] { return rig.ready(0) && rig.admin("/health").find("unmetered") == std::string::npos; });
  rig.upstream.hangs = true;
  testing::internal::CaptureStderr();
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("", false, "X-Request-Id: abc\r\n"));
  await([&] { return rig.upstream.seen_count() == 1; });
  rig.upstream.answers_health = false;
  EXPECT_EQ(client.response().substr(9, 3), "503");
  const auto span = collector.once(1).front();
  EXPECT_EQ(attribute(span, "wattle.fate"), "rejected");
  EXPECT_EQ(attribute(span, "wattle.attempts"), "1");
  const double joules = attribute(span, "wattle.energy_j").get<double>();
  EXPECT_GT(joules, 0.0) << "what the lost attempt drew";
  const auto row = nlohmann::json::parse(Rig::body_of(rig.admin("/usage/requests/abc"))).at("requests").at(0);
  EXPECT_EQ(row["fate"], "rejected");
  EXPECT_EQ(row["energy_j"].get<double>(), joules);
  ASSERT_EQ(rig.sink.all.size(), 1U);
  EXPECT_EQ(rig.sink.all[0].fate, Fate::Rejected);
  EXPECT_EQ(rig.sink.all[0].energy.joules().value(), joules) << "the journal's";
  rig.gateway->stop(Span());
  net::flush_log(Span::s(5));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find(" fate=rejected "), std::string::npos) << log;
  const std::size_t at = log.find(" energy_j=");
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_DOUBLE_EQ(std::stod(log.substr(at + 10)), joules);
}

TEST(Observer, AFateIsTheJournals) {
  RequestEnd end;  // the client left as the core refused it
  end.fate = Fate::Cancelled;
  end.reason = "the client went away";
  Outcome outcome;
  outcome.request.id = RequestId(-1);
  outcome.metered = false;
  end.booked(outcome, "emulated");
  EXPECT_EQ(end.fate, Fate::Cancelled) << "the ledger has forgotten it";
  EXPECT_FALSE(end.energy_j);
  outcome.request.id = RequestId(7);
  outcome.fate = Fate::Rejected;
  outcome.reason = "no instance is ready";
  outcome.metered = true;
  end.booked(outcome, "emulated");
  EXPECT_EQ(end.fate, Fate::Rejected);
  EXPECT_EQ(end.reason, "no instance is ready");
  EXPECT_EQ(end.energy_j, 0.0);
}

TEST(Observer, ACollectorThatIsAwayOrSlowCostsSpansAndNoRequest) {
  static constexpr int kRequests = 40;
  const auto all_answered = [](Rig& rig) {
    for (int i = 0; i < kRequests; ++i) EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
    EXPECT_EQ(rig.settled().finished, kRequests);
  };
  Collector hung;
  hung.hangs = true;
  Rig slow({Role::Colocated}, 64, "", traced(hung.url(), 1.0, 4, Span::ms(100)));
  all_answered(slow);
  await([&] { return counter(slow, "wattle_gateway_spans_dropped_total") >= kRequests; });
  EXPECT_EQ(counter(slow, "wattle_gateway_spans_exported_total"), 0);

  std::string nobody;
  {
    const Collector gone;
    nobody = gone.url();
  }
  Rig dead({Role::Colocated}, 64, "", traced(nobody));
  all_answered(dead);
  await([&] { return counter(dead, "wattle_gateway_spans_dropped_total") >= kRequests; });

  Collector angry;
  angry.status = 503;
  Rig refused({Role::Colocated}, 64, "", traced(angry.url()));
  all_answered(refused);
  await([&] { return counter(refused, "wattle_gateway_spans_dropped_total") >= kRequests; });
  angry.status = 200;
  refused.ask(Rig::chat("", false));
  await([&] { return counter(refused, "wattle_gateway_spans_exported_total") >= 1; });
  EXPECT_EQ(counter(refused, "wattle_gateway_spans_exported_total"), 1) << "it goes on";
  EXPECT_FALSE(angry.once(1).empty());
}

TEST(Observer, WhatTheCollectorRejectsIsCounted) {
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":"3"}})"), 3);
  EXPECT_EQ(rejected_spans(R"({"partialSuccess":{"rejectedSpans":2,"errorMessage":"no"}})"), 2);
  for (const char* none : {"", "{}", "x", R"({"partialSuccess":{}})", R"({"partialSuccess":7})",
                           R"({"partialSuccess":{"rejectedSpans":-1}})"}) {
    EXPECT_EQ(rejected_spans(none), 0) << none;
  }
}

TEST(Observer, WhatIsLeftGoesOutAtTheEnd) {
  Collector collector;
  {
    Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies& policies) {
      traced(collector.url())(options, policies);
      options.observer.flush_period = Span::s(600);
    });
    for (int i = 0; i < 3; ++i) rig.ask(Rig::chat("", false));
    rig.settled();
  }
  EXPECT_EQ(collector.once(3).size(), 3U);
}

TEST(Observer, WithoutACollectorTheCallersFieldsPassAsTheyAre) {
  Rig rig;
  rig.ask(Rig::chat("", false, std::string("traceparent: ") + kCaller + "\r\ntracestate: vendor=1\r\n"));
  EXPECT_EQ(header_at_engine(rig, "traceparent"), kCaller);
  EXPECT_EQ(header_at_engine(rig, "tracestate"), "vendor=1");
  EXPECT_EQ(counter(rig, "wattle_gateway_spans_dropped_total"), -1);
}

TEST(Observer, WhatIsNoTextIsReplacedInSpans) {
  auto request = std::make_shared<RequestEnd>();
  request->name = "a\xff\n\"b";
  request->own = {{1, 2}, 3, true};
  const std::shared_ptr<const RequestEnd> requests[] = {request};
  const auto body = nlohmann::json::parse(otlp_json(requests, 0, "host"));
  const auto& span = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(attribute(span, "wattle.request_id"), "a\xef\xbf\xbd\n\"b");
  EXPECT_EQ(span["traceId"], "00000000000000010000000000000002");
}

}  // namespace
}  // namespace wattle::gateway
