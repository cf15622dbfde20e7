// What clients, engines and operators send that is not what one would like.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "gateway/metrics.h"
#include "gateway/relay_fields.h"
#include "gateway/rig_test.h"
#include "net/await_test.h"
#include "net/raw_server_test.h"

namespace wattle::gateway {
namespace {

std::string admin(Rig& rig, const std::string& bytes) { return rig.ask_admin(bytes); }

std::string worker(const std::string& url, const std::string& rest = "") {
  return Rig::post(R"({"url":")" + url + "\"" + rest + "}", "/workers");
}

std::string form(const std::string& model) {
  return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--b\r\n" +
         (model.empty() ? "" : "Content-Disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n--b") + "--\r\n";
}

TEST(Strangers, WhatIsNotReadDoesNotPass) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) { options.pass_paths = {"/form"}; });
  const auto status = [&](const std::string& path, const std::string& body, const std::string& type) {
    return rig.ask(Rig::post(body, path, type.empty() ? "" : "Content-Type: " + type + "\r\n")).substr(9, 3);
  };
  std::string utf16;
  for (const char ascii : std::string_view(R"({"kv_transfer_params":{}})")) {
    utf16 += {ascii, '\0'};
  }
  for (const char* path : {"/v1/responses", "/v1/messages", "/v1/embeddings", "/tokenize"}) {
    for (const char* type : {"", "application/json", "text/plain", "multipart/form-data; boundary=b", "audio/wav"}) {
      EXPECT_EQ(status(path, R"({"model":"m","x":NaN,"kv_transfer_params":{"remote_host":"h"}})", type), "400") << type;
      EXPECT_EQ(status(path, R"({"model":"no such","x":Infinity})", type), "400") << type;
      EXPECT_EQ(status(path, utf16, type), "400") << type;
      EXPECT_EQ(status(path, "\xFF\xFE" + utf16, type), "400") << type;
    }
    EXPECT_EQ(status(path, "", ""), "400");
  }
  EXPECT_EQ(rig.gateway->counts().arrived, 0);
  EXPECT_EQ(rig.upstream.seen_count(), 0);
  EXPECT_EQ(status("/form", form("m"), "multipart/form-data; boundary=b"), "200");
  EXPECT_EQ(status("/form", form(""), "multipart/form-data; boundary=b"), "200") << "one model: it need not be said";
  EXPECT_EQ(status("/form", form("no such"), "multipart/form-data; boundary=b"), "404");
}

TEST(Strangers, AFormsModelIsRead) {
  Upstream second;
  Rig rig({Role::Colocated, Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
    options.models = {"m", "o"};
    options.workers[0].models = {"m"};
    options.workers[1].models = {"o"};
    options.workers[1].url = second.url();
    options.pass_paths = {"/form"};
  });
  const auto status = [&](const std::string& model) {
    return rig.ask(Rig::post(form(model), "/form", "Content-Type: multipart/form-data; boundary=b\r\n")).substr(9, 3);
  };
  EXPECT_EQ(status("o"), "200");
  EXPECT_EQ(second.seen_count(), 1);
  EXPECT_EQ(status("m"), "200");
  EXPECT_EQ(rig.upstream.seen_count(), 1);
  EXPECT_EQ(status("p"), "404");
  EXPECT_EQ(status(""), "400");
}

TEST(Strangers, WhatAnEngineSaysOfItsRefusalComesBack) {
  Rig rig;
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("who", false));
  const std::string who = client.response();
  EXPECT_NE(who.find("WWW-Authenticate: Bearer realm=\"e\"\r\n"), std::string::npos) << who;
  EXPECT_EQ(who.find("X-Own"), std::string::npos) << who;
  client.send(Rig::chat("elsewhere", false));
  EXPECT_NE(client.response().find("Location: /other\r\n"), std::string::npos);
  for (const char* mode : {"bare", "not-modified"}) {
    client.send(Rig::chat(mode, false));
    const std::string head = client.until("\r\n\r\n");
    EXPECT_EQ(head.find("Transfer-Encoding"), std::string::npos) << head;
    client.send("GET /v1/models/m HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_NE(client.response().find(R"("id":"m")"), std::string::npos) << "the connection serves on";
  }
}

TEST(Strangers, AGatewayThatIsItsOwnWorkerSaysSo) {
  Rig rig({}, 64, "", [](GatewayOptions& options, GatewayPolicies&) { options.max_requests = 8; });
  const std::string url = "http://127.0.0.1:" + std::to_string(rig.gateway->port());
  EXPECT_EQ(admin(rig, worker(url)).substr(9, 3), "202");
  const std::string answer = rig.ask(Rig::chat("", false, "Via: 1.1 edge\r\n"));
  EXPECT_EQ(answer.substr(9, 3), "508") << answer;
  const auto counts = rig.settled();
  EXPECT_EQ(counts.arrived, 1) << "it comes back once, and is not taken";
  EXPECT_EQ(counts.failed, 1);

  Rig probing({}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.probe_health = true;
    options.health_period = Span::ms(10);
  });
  EXPECT_EQ(admin(probing, worker("http://127.0.0.1:" + std::to_string(probing.gateway->port()))).substr(9, 3), "202");
  await([&] { return probing.admin("/metrics").find("responses_total{code=\"508\"}") != std::string::npos; });
  EXPECT_FALSE(probing.ready(0));
  Rig sound;
  EXPECT_EQ(sound.ask(Rig::chat("", false, "Via: 1.1 edge\r\nVia: 1.1 other\r\n")).substr(9, 3), "200");
  EXPECT_NE(sound.upstream.headers.at(0).find("Via: 1.1 other\n"), std::string::npos) << "others' names travel on";
}

TEST(Strangers, AnEncodedAnswerIsTheEnginesFailure) {
  net::RawServer packed([](int, int fd) {
    if (!net::RawServer::read_request(fd)) return;
    net::RawServer::say(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b");
  });
  Rig rig({Role::Colocated}, 64, "",
          [&](GatewayOptions& options, GatewayPolicies&) { options.workers.front().url = packed.url() + "/"; });
  const std::string answer = rig.ask(Rig::chat("", false, "Accept-Encoding: gzip\r\n"));
  EXPECT_EQ(answer.substr(9, 3), "502") << answer;
  EXPECT_NE(answer.find("Content-Encoding, although identity was asked for"), std::string::npos) << answer;
  EXPECT_EQ(rig.settled().failed, 1);
  const std::string metrics = rig.admin("/metrics");
  EXPECT_NE(metrics.find("worker_failures_total{worker=\"" + packed.url() + "\"} 2\n"), std::string::npos) << metrics;
  Rig sound;
  EXPECT_EQ(sound.ask(Rig::chat("", false, "Accept-Encoding: gzip\r\n")).substr(9, 3), "200");
  const std::string& seen = sound.upstream.headers.at(0);
  EXPECT_NE(seen.find("Accept-Encoding: identity\n"), std::string::npos) << seen;
  EXPECT_EQ(seen.find("gzip"), std::string::npos) << seen;
}

TEST(Strangers, AWholeAnswerThatIsNoObjectIsTheEnginesFailure) {
  for (const char* energy : {"", "X-Wattle-Usage: energy\r\n"}) {
    for (const char* mode : {"empty", "words", "half"}) {
      Rig rig;
      const std::string answer = rig.ask(Rig::chat(mode, false, energy));
      if (*energy != '\0' || mode != std::string("half")) {
        EXPECT_EQ(answer.substr(9, 3), "502") << answer;
        EXPECT_NE(answer.find("not a JSON object"), std::string::npos) << answer;
      }
      const auto counts = rig.settled();
      EXPECT_EQ(counts.failed, 1) << mode;
      EXPECT_EQ(counts.finished, 0) << mode;
      EXPECT_NE(rig.admin("/metrics").find("worker_failures_total{worker=\"" + rig.upstream.url() + "\"} 1\n"),
                std::string::npos);
    }
  }
}

TEST(Strangers, AnErrorInAWholeAnswerOf200IsTheEnginesFailure) {
  Rig rig;
  const std::string answer = rig.ask(Rig::chat("error-in-200", false));
  EXPECT_EQ(answer.substr(9, 3), "502") << answer;
  EXPECT_EQ(rig.settled().failed, 1);
  EXPECT_NE(rig.admin("/metrics").find("worker_failures_total{worker=\"" + rig.upstream.url() + "\"} 1\n"),
            std::string::npos);
}

TEST(Strangers, HalfAnObjectOfAPromisedLengthDoesNotReachItsClientWhole) {
  const std::string half = R"({"choices":[{"message":)";
  net::RawServer engine([&](int, int fd) {
    if (!net::RawServer::read_request(fd)) return;
    net::RawServer::say(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                                std::to_string(half.size()) + "\r\n\r\n" + half.substr(0, 5));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the client has its beginning
    net::RawServer::say(fd, half.substr(5));
  });
  Rig rig({Role::Colocated}, 64, "",
          [&](GatewayOptions& options, GatewayPolicies&) { options.workers.front().url = engine.url() + "/"; });
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("", false));
  const std::string answer = client.all();
  EXPECT_EQ(answer.find(half), std::string::npos) << answer;
  EXPECT_EQ(rig.settled().failed, 1);
}

TEST(Strangers, AFailureBehindA200IsCountedAsWhatWentOverTheWire) {
  for (const char* mode : {"no-finish", "error-done", "die-midway", "no-done"}) {
    Rig rig;
    EXPECT_EQ(rig.ask(Rig::chat(mode, true), true).substr(9, 3), "200") << mode;
    EXPECT_EQ(rig.settled().failed, 1) << mode;
    const std::string metrics = rig.admin("/metrics");
    EXPECT_NE(metrics.find("responses_total{code=\"200\"} 1\n"), std::string::npos) << mode << metrics;
    EXPECT_EQ(metrics.find("responses_total{code=\"502\"}"), std::string::npos) << mode;
  }
}

TEST(Strangers, AStreamThatHasSaidItsLastEventIsOver) {
  Rig rig({Role::Colocated}, 64, "",
          [](GatewayOptions& options, GatewayPolicies&) { options.client.body_timeout = Span::ms(50); });
  const std::string answer = rig.ask(Rig::chat("stays-open", true), true);
  EXPECT_NE(answer.find("[DONE]\n\n"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("error"), std::string::npos) << answer;
  const auto counts = rig.settled();
  EXPECT_EQ(counts.finished, 1);
  EXPECT_EQ(counts.failed, 0);
  EXPECT_EQ(rig.admin("/metrics").find("worker_failures_total{"), std::string::npos);
}

TEST(Strangers, AStreamCutBetweenCrAndLfKeepsItsUsageToItself) {
  net::RawServer engine([](int, int fd) {
    if (!net::RawServer::read_request(fd)) return;
    net::RawServer::say(
        fd,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        "id: 1\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\r\n\r\n"
        "id: 2\r");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // two reads
    net::RawServer::say(fd, "\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    net::RawServer::say(fd,
                        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\r\n\r\n"
                        "id: 3\r\ndata: [DONE]\r\n\r\n");
  });
  Rig rig({Role::Colocated}, 64, "",
          [&](GatewayOptions& options, GatewayPolicies&) { options.workers.front().url = engine.url(); });
  const std::string answer = rig.ask(Rig::chat("", true), true);
  EXPECT_NE(answer.find("id: 1\r\n"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("id: 2"), std::string::npos) << answer;
  EXPECT_EQ(answer.find("usage"), std::string::npos) << answer;
  EXPECT_NE(answer.find("id: 3\r\ndata: [DONE]"), std::string::npos) << answer;
  EXPECT_EQ(rig.settled().finished, 1);
}

/// What a client of HTTP/1.0, to whom nothing is sent in chunks, gets of a stream that comes in these pieces.
std::string relayed(const std::vector<std::string>& pieces, journal::RequestCounts& counts) {
  net::RawServer engine([&](int, int fd) {
    if (!net::RawServer::read_request(fd)) return;
    net::RawServer::say(fd, "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream\r\nConnection: close\r\n\r\n");
    for (const std::string& piece : pieces) {
      net::RawServer::say(fd, piece);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
  });
  Rig rig({Role::Colocated}, 64, "",
          [&](GatewayOptions& options, GatewayPolicies&) { options.workers.front().url = engine.url(); });
  std::string asked = Rig::chat("", true);
  asked.replace(asked.find("HTTP/1.1"), 8, "HTTP/1.0");
  net::RawClient client(rig.gateway->port());
  client.send(asked);
  const std::string answer = client.all();
  counts = rig.settled();
  return Rig::body_of(answer);
}

const std::string kLast = R"(data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]})";
const std::string kCounted = R"(data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}})";

TEST(Strangers, AnEventsLineEndStaysWithItWhereverAStreamIsCut) {
  const std::string end = "\r\n\r\n", done = "data: [DONE]";
  const std::string stream = kLast + end + kCounted + end + done + end;
  for (const std::size_t cut : {kLast.size() + 3, kLast.size() + end.size() + kCounted.size() + 3}) {
    journal::RequestCounts counts;
    EXPECT_EQ(relayed({stream.substr(0, cut), stream.substr(cut)}, counts), kLast + end + done + end) << cut;
    EXPECT_EQ(counts.finished, 1);
  }
}

TEST(Strangers, TheLastEventNeedsNoBlankLine) {
  for (const char* end : {"", "\n", "\r\n"}) {
    journal::RequestCounts counts;
    const std::string answer = relayed({kLast + "\n\n" + kCounted + "\n\n", std::string("data: [DONE]") + end}, counts);
    EXPECT_TRUE(answer.starts_with(kLast + "\n\ndata: [DONE]" + end + "\n")) << answer;
    EXPECT_EQ(answer.find("error"), std::string::npos) << answer;
    EXPECT_EQ(counts.finished, 1);
  }
  journal::RequestCounts counts;
  EXPECT_NE(relayed({kLast + "\n\ndata: [DO"}, counts).find("error"), std::string::npos);
  EXPECT_EQ(counts.failed, 1);
}

TEST(Strangers, AWorkersUrlChangesNoLineAndNoLabel) {
  Rig rig;
  for (const char* path : {"/a b", "/a\\r\\nX-Mine: 1", "/a\\\"", "/a\\\\", "/\\u0001", "/a?b=c", "/a#b"}) {
    EXPECT_EQ(admin(rig, worker("http://127.0.0.1:9" + std::string(path))).substr(9, 3), "400") << path;
  }
  GatewayMetrics metrics;
  metrics.worker_failure("a\"b\\c");
  GatewayMetrics::WorkerRow row;
  row.id = InstanceId(0);
  row.url = "a\"b\\c";
  const std::string text = metrics.text({}, {row}, {}, {});
  EXPECT_NE(text.find("worker_failures_total{worker=\"a\\\"b\\\\c\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("worker_up{worker=\"a\\\"b\\\\c\",id=\"0\""), std::string::npos) << text;
}

TEST(Strangers, HeadIsAnsweredAndA405NamesWhatAPathServes) {
  Rig rig;
  const auto ask = [&](const std::string& method, const std::string& path) {
    net::RawClient client(rig.gateway->admin_port());
    client.send(method + " " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    return client.all();
  };
  for (const char* path : {"/workers", "/workers/0", "/metrics", "/usage", "/plan", "/queue", "/health"}) {
    const std::string answer = ask("HEAD", path);
    EXPECT_EQ(answer.substr(9, 3), "200") << path;
    EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << path << answer;
  }
  EXPECT_EQ(ask("HEAD", "/workers/7").substr(9, 3), "404");
  for (const auto& [path, allow] : {std::pair{"/workers", "GET, HEAD, POST"},
                                    {"/workers/0", "GET, HEAD, PUT, DELETE"},
                                    {"/plan", "GET, HEAD, PUT"},
                                    {"/queue", "GET, HEAD, PUT"},
                                    {"/usage", "GET, HEAD"},
                                    {"/journal", "POST"}}) {
    const std::string answer = ask("PATCH", path);
    EXPECT_EQ(answer.substr(9, 3), "405") << path;
    EXPECT_NE(answer.find(std::string("Allow: ") + allow + "\r\n"), std::string::npos) << answer;
  }
  EXPECT_NE(rig.ask("PUT /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").find("Allow: GET, HEAD, OPTIONS\r\n"),
            std::string::npos);
  EXPECT_NE(rig.ask("PUT /v1/completions HTTP/1.1\r\nHost: h\r\n\r\n").find("Allow: POST, OPTIONS\r\n"),
            std::string::npos);
}

TEST(Strangers, AWorkerThatIsThereIsNotAddedAgain) {
  Rig rig;
  const std::string url = rig.upstream.url();
  for (const std::string& same : {url, url + "/", url.substr(7)}) {
    const std::string answer = admin(rig, worker(same));
    EXPECT_EQ(answer.substr(9, 3), "200") << answer;
    EXPECT_NE(answer.find(R"("id":"0")"), std::string::npos) << answer;
  }
  EXPECT_EQ(admin(rig, worker(url, R"(,"worker_type":"decode")")).substr(9, 3), "409");
  EXPECT_EQ(admin(rig, "DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  const std::string again = admin(rig, worker(url));
  EXPECT_EQ(again.substr(9, 3), "202") << again;
  EXPECT_NE(again.find(R"("id":"1")"), std::string::npos) << "the first is leaving";
  EXPECT_EQ(admin(rig, worker(url + "/v2")).substr(9, 3), "202") << "another path, another engine";
}

TEST(Strangers, APairIsOfAPrefillWorkerAndADecodeWorkerThatIsThere) {
  Rig rig;
  const auto pair = [&](const char* role, const char* decode) {
    return admin(rig, worker("http://127.0.0.1:9", fmt::format(R"(,"worker_type":"{}","decode":{})", role, decode)));
  };
  EXPECT_NE(pair("prefill", R"("7")").find("no decode worker"), std::string::npos);
  EXPECT_NE(pair("prefill", R"("0")").find("no decode worker"), std::string::npos) << "it is colocated";
  for (const char* wrong : {R"("x")", R"("")", "1", R"("-1")"}) {
    EXPECT_NE(pair("prefill", wrong).find("decode must be the id"), std::string::npos) << wrong;
  }
  EXPECT_EQ(admin(rig, worker("http://127.0.0.1:8", R"(,"worker_type":"decode")")).substr(9, 3), "202");
  EXPECT_NE(pair("decode", R"("1")").find("decode must be the id"), std::string::npos);
  EXPECT_EQ(pair("prefill", R"("1")").substr(9, 3), "202");
  const std::string shown = admin(rig, "GET /workers/2 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(shown.find(R"("decode":"1")"), std::string::npos) << shown;
}

TEST(Strangers, EnginesGivenAtTheStartStandApart) {
  const auto said = [](std::vector<std::string> urls) {
    std::vector<WorkerOptions> workers;
    for (auto& url : urls) workers.push_back(parse_worker(url, "--worker").value());
    const auto ok = check_apart(workers, "--worker");
    return ok ? std::string() : ok.error().message();
  };
  EXPECT_EQ(said({"http://h:1", "http://h:2", "http://h:1/x", "h:3"}), "");
  EXPECT_NE(said({"http://h:1", "http://h:2", "h:1/"}).find("h:1/ is said twice"), std::string::npos);
  EXPECT_EQ(said({"http://h:1,fpm=tcp://h:5", "http://h:2,fpm=tcp://h:6", "http://h:3"}), "");
  EXPECT_NE(said({"http://h:1,fpm=tcp://h:5", "http://h:2,fpm=tcp://h:5"}).find("tcp://h:5 is where another worker"),
            std::string::npos);
}

TEST(Strangers, WhatOneEngineComputesIsRefusedWhereEachHasAPart) {
  Rig rig;
  const std::string two = Rig::post(R"({"model":"m","messages":[],"n":2,"user":""})");
  const std::string embed = Rig::post(R"({"model":"m","input":"x"})", "/v1/embeddings");
  EXPECT_EQ(rig.ask(two).substr(9, 3), "200");
  EXPECT_EQ(admin(rig, worker("http://127.0.0.1:9", R"(,"worker_type":"prefill")")).substr(9, 3), "202");
  EXPECT_EQ(rig.ask(two).substr(9, 3), "200");
  EXPECT_EQ(rig.ask(embed).substr(9, 3), "200");
  EXPECT_EQ(admin(rig, "DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  EXPECT_EQ(rig.ask(two).substr(9, 3), "400");
  EXPECT_EQ(rig.ask(embed).substr(9, 3), "501");
  const auto said = [&](const std::string& fields) {
    return rig.ask(Rig::post(R"({"model":"m",)" + fields + "}", "/v1/completions"));
  };
  for (const char* several : {R"("prompt":["a","b"])", R"("prompt":[[1,2],[3]])"}) {
    EXPECT_NE(said(several).find("several prompts in one request are not supported"), std::string::npos) << several;
  }
  EXPECT_NE(said(R"("prompt":"a","best_of":2)").find("best_of > 1 is not supported"), std::string::npos);
  EXPECT_EQ(rig.upstream.seen_count(), 3) << "of these nothing has reached an engine";
}

TEST(Strangers, LongRequestIdsAreNotKept) {
  Rig rig;
  const auto ask = [&](std::size_t size) {
    return rig.ask(Rig::chat("", false, "X-Request-Id: " + std::string(size, 'x') + "\r\n"));
  };
  EXPECT_NE(ask(128).find("X-Request-Id: " + std::string(128, 'x') + "\r\n"), std::string::npos);
  EXPECT_NE(ask(129).find("X-Request-Id: wattle-"), std::string::npos);
  EXPECT_EQ(Upstream::name_of(rig.upstream.request_ids.at(0)).size(), 128U);
  EXPECT_TRUE(rig.upstream.request_ids.at(1).starts_with("wattle-")) << rig.upstream.request_ids.at(1);
}

TEST(Strangers, EnginesGetEveryAttemptUnderAnotherName) {
  Rig rig;
  rig.ask(Rig::chat("die", false, "X-Request-Id: same\r\n"));  // sent twice
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(rig.ask(Rig::chat("", false, "X-Request-Id: same\r\n")).find("X-Request-Id: same\r\n"),
              std::string::npos);
  }
  rig.settled();
  auto ids = rig.upstream.request_ids;
  ASSERT_EQ(ids.size(), 4U);
  for (const auto& id : ids) EXPECT_EQ(Upstream::name_of(id), "same");
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::unique(ids).begin(), ids.end()) << "KV of one would be taken for another's";
}

TEST(Strangers, LimitsOfOutputsAreWholeNumbers) {
  const auto most = [](net::ApiPath path, const std::string& fields) {
    const auto asked = net::read_completion(path, padded("{\"model\":\"m\"," + fields + "}"));
    return asked ? asked->max_tokens : -1;
  };
  using enum net::ApiPath;
  EXPECT_EQ(most(Completions, R"("prompt":"x","max_tokens":0,"echo":true)"), 1) << "believed";
  EXPECT_EQ(most(Completions, R"("prompt":"x","max_tokens":-1)"), -1);
  EXPECT_EQ(most(Completions, R"("prompt":"x")"), 0) << "not said";
  EXPECT_EQ(most(Chat, R"("messages":[],"max_tokens":0)"), -1);
  for (const char* five : {"5", "5.0", "5e0", "0.5e1"}) {  // one number to JSON, and to vLLM
    EXPECT_EQ(most(Chat, R"("messages":[],"n":1.0,"max_completion_tokens":)" + std::string(five)), 5) << five;
    EXPECT_EQ(most(Typed, R"("input":"x","max_output_tokens":)" + std::string(five)), 5) << five;
  }
  for (const char* none : {"5.5", "\"5\"", "1e30", "true", "-0.5"}) {
    EXPECT_EQ(most(Chat, R"("messages":[],"max_tokens":)" + std::string(none)), -1) << none;
  }
  EXPECT_EQ(most(Chat, R"("messages":[],"max_completion_tokens":0)"), -1);
}

}  // namespace
}  // namespace wattle::gateway
