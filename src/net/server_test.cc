#include "net/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "net/await_test.h"
#include "net/client.h"
#include "net/clock.h"
#include "net/faults.h"
#include "net/log.h"
#include "net/raw_client_test.h"
#include "net/raw_server_test.h"

namespace wattle::net {
namespace {

/// Echoes bodies; /stream answers in pieces; /hold answers when asked to; /drop breaks off.
struct Echo {
  LoopPool pool{2};
  std::atomic<int> gone{0};
  std::promise<std::shared_ptr<Exchange>> held;
  std::unique_ptr<HttpServer> server;

  explicit Echo(ServerOptions options = {}) {
    auto made = HttpServer::listen(pool, options, [this](std::shared_ptr<Exchange> e) { handle(std::move(e)); });
    EXPECT_TRUE(made.has_value()) << made.error().message();
    server = std::move(*made);
  }
  ~Echo() {
    server.reset();
    pool.stop();
  }
  void handle(std::shared_ptr<Exchange> e) {
    if (e->path() == "/stream") {
      e->begin(200, "text/event-stream");
      e->write("data: 1\n\n");
      e->write("data: 2\n\n");
      return e->finish();
    }
    if (e->path() == "/drop") {
      e->begin(200, "text/plain");
      e->write("half");
      return e->drop();
    }
    if (e->path() == "/hold") {
      e->on_gone([this] { ++gone; });
      return held.set_value(e);
    }
    if (e->path() == "/forget") return;
    if (e->path() == "/throw") throw std::runtime_error("planted");
    if (e->path() == "/throw-midway") {
      e->begin(200, "text/plain");
      throw 5;
    }
    e->respond(200, "text/plain", e->body());
  }
};

TEST(HttpServer, EchoesAndKeepsTheConnection) {
  Echo echo;
  RawClient client(echo.server->port());
  for (int i = 0; i < 3; ++i) {
    client.send("POST /x?q=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    const std::string answer = client.response();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
  }
  EXPECT_EQ(echo.server->connections(), 1);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrderAndChunkedBodies) {
  Echo echo;
  RawClient client(echo.server->port());
  client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\naPOST / HTTP/1.1\r\nHost: h\r\n"
      "Transfer-Encoding: chunked\r\n\r\n2\r\nbc\r\n1\r\nd\r\n0\r\n\r\n");
  EXPECT_TRUE(client.response().ends_with("\r\n\r\na"));
  EXPECT_TRUE(client.response().ends_with("\r\n\r\nbcd"));
}

TEST(HttpServer, EmptyLinesBeforeARequestAreReadOver) {
  Echo echo;
  RawClient client(echo.server->port());
  const std::string hi = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
  client.send(hi + "\r\n" + hi + "\r\n\r\n\r");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(client.response().ends_with("\r\n\r\nhi"));
  client.send("\n" + hi);
  EXPECT_TRUE(client.response().ends_with("\r\n\r\nhi"));
  client.send("\r\rGET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.response().substr(9, 3), "400");
}

TEST(HttpServer, StreamsInChunksAndToOldClientsUntilClose) {
  Echo echo;
  RawClient client(echo.server->port());
  client.send("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = client.until("0\r\n\r\n");
  EXPECT_NE(answer.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_NE(answer.find("9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"), std::string::npos) << answer;
  RawClient old(echo.server->port());
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  const std::string plain = old.all();
  EXPECT_EQ(plain.find("chunked"), std::string::npos);
  EXPECT_TRUE(plain.ends_with("\r\n\r\ndata: 1\n\ndata: 2\n\n")) << plain;
}

TEST(HttpServer, RefusesWhatIsMalformedOrTooLarge) {
  ServerOptions options;
  options.limits = {2048, 4096};
  Echo echo(options);
  const auto answer = [&](const std::string& bytes) {
    RawClient client(echo.server->port());
    client.send(bytes);
    return client.all().substr(0, 12);
  };
  EXPECT_EQ(answer("nonsense\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer("GET / HTTP/2.0\r\n\r\n"), "HTTP/1.1 505");
  EXPECT_EQ(answer("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(answer("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
            "HTTP/1.1 400");
  EXPECT_EQ(answer("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4097\r\n\r\n"), "HTTP/1.1 413");
  EXPECT_EQ(answer("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1001\r\n" + std::string(4097, 'x')),
            "HTTP/1.1 413");
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + std::string(4000, 'x') + "\r\n\r\n"), "HTTP/1.1 431");
}

TEST(HttpServer, SaysContinue) {
  Echo echo;
  RawClient client(echo.server->port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_TRUE(client.response().ends_with("ok"));
}

TEST(HttpServer, TellsWhenTheClientLeaves) {
  Echo echo;
  auto held = echo.held.get_future();
  RawClient client(echo.server->port());
  client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto exchange = held.get();
  client.close();
  await([&] { return echo.gone != 0; });
  std::promise<void> late;
  exchange->loop().post([&] {
    exchange->respond(200, "text/plain", "too late");  // ignored
    late.set_value();
  });
  late.get_future().wait();
  EXPECT_EQ(echo.gone, 1);
}

TEST(HttpServer, AForgottenOrDroppedRequestClosesTheConnection) {
  Echo echo;
  RawClient forgotten(echo.server->port());
  forgotten.send("GET /forget HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(forgotten.all(), "");
  RawClient dropped(echo.server->port());
  dropped.send("GET /drop HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string answer = dropped.all();
  EXPECT_TRUE(answer.ends_with("4\r\nhalf\r\n")) << answer;
}

TEST(HttpServer, AHandlerThatThrowsIsA500AndOthersGoOn) {
  Echo echo;
  const std::int64_t before = faults();
  RawClient client(echo.server->port());
  testing::internal::CaptureStderr();
  client.send("GET /throw HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\xff\r\n\r\n");
  EXPECT_TRUE(client.response().starts_with("HTTP/1.1 500"));
  EXPECT_TRUE(flush_log(Span::s(20)));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("internal error"), std::string::npos) << said;
  EXPECT_NE(said.find(R"(request_id="mine\ufffd")"), std::string::npos) << said;
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_TRUE(client.response().ends_with("\r\n\r\nhi")) << "the same connection serves on";
  client.send("GET /throw-midway HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_FALSE(client.all().ends_with("0\r\n\r\n")) << "a cut answer must not look whole";
  EXPECT_EQ(faults(), before + 2);
}

TEST(Loop, ATaskThatThrowsEndsNeitherTheLoopNorItsTimer) {
  Loop loop;
  std::promise<void> again;
  int calls = 0;
  loop.post([] { throw std::runtime_error("planted"); });
  loop.every(Span::ms(1), [&] {
    if (++calls == 2) again.set_value();
    throw std::runtime_error("planted");
  });
  again.get_future().wait();
  loop.stop();
  EXPECT_GE(calls, 2);
}

TEST(HttpServer, DrainsOnStop) {
  Echo echo;
  auto held = echo.held.get_future();
  RawClient client(echo.server->port());
  client.send("GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
  const auto exchange = held.get();
  std::thread stopper([&] { echo.server->stop(Span::s(20)); });
  exchange->loop().after(Span::ms(20), [exchange] { exchange->respond(200, "text/plain", "done"); });
  const std::string answer = client.all();
  EXPECT_TRUE(answer.ends_with("done")) << answer;
  client.close();
  stopper.join();
  EXPECT_EQ(echo.server->connections(), 0);
  EXPECT_FALSE(RawClient(echo.server->port()).connected());
}

TEST(HttpServer, Http2IsRefusedInItsOwnFramesHoweverItsPrefaceComes) {
  Echo echo;
  constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::string whole;
  for (const std::size_t piece : {kPreface.size(), std::size_t{1}, std::size_t{15}}) {
    RawClient client(echo.server->port());
    for (std::size_t at = 0; at < kPreface.size(); at += piece) {
      client.send(kPreface.substr(at, piece));
      if (piece < kPreface.size()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const std::string frames = client.all();  // and the connection closes
    ASSERT_GT(frames.size(), 26U);
    EXPECT_EQ(frames[3], 4) << "SETTINGS";
    EXPECT_EQ(frames[12], 7) << "GOAWAY";
    EXPECT_EQ(frames[25], 13) << "HTTP_1_1_REQUIRED";
    EXPECT_TRUE(whole.empty() || frames == whole) << "the same whatever the pieces";
    whole = frames;
  }
}

TEST(HttpServer, AnUpgradeToHttp2IsNotMadeAndTheRequestServed) {
  Echo echo;
  RawClient client(echo.server->port());
  for (int i = 0; i < 2; ++i) {
    client.send(
        "POST / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        "HTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 5\r\n\r\nhello");
    const std::string answer = client.response();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
    EXPECT_EQ(answer.find("Upgrade"), std::string::npos) << answer;
  }
}

struct Collect : ResponseHandler {
  std::promise<std::string> done;
  std::string body;
  void on_head(int status, const HeaderFields&, std::int64_t) override { body = std::to_string(status) + " "; }
  void on_body(std::string_view bytes) override { body += bytes; }
  void on_end() override { done.set_value(body); }
  void on_failure(CallFailure failure) override { done.set_value(std::string("failed: ") + text_of(failure)); }
};

struct ClientRig {
  Loop loop;
  std::unique_ptr<HttpClient> client;
  ClientRig() {
    loop.run([&] { client = std::make_unique<HttpClient>(loop, ClientOptions()); });
  }
  ~ClientRig() {
    loop.run([&] { client.reset(); });
  }
  std::string call(const std::shared_ptr<const Endpoint>& to, std::string_view method, std::string_view target,
                   std::string_view body = {}) {
    auto handler = std::make_shared<Collect>();
    auto result = handler->done.get_future();
    loop.run([&] { client->send(to, method, target, {}, body, handler); });
    return result.get();
  }
};

std::shared_ptr<const Endpoint> local(std::uint16_t port) {
  return std::make_shared<const Endpoint>(*resolve_endpoint("http://127.0.0.1:" + std::to_string(port), "test"));
}

TEST(HttpClient, ReusesConnections) {
  Echo echo;
  ClientRig rig;
  const auto to = local(echo.server->port());
  const std::string big(300'000, 'b');
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rig.call(to, "POST", "/", big), "200 " + big);
  EXPECT_EQ(rig.call(to, "GET", "/stream"), "200 data: 1\n\ndata: 2\n\n");
  EXPECT_EQ(echo.server->connections(), 1);
}

TEST(HttpClient, SaysHowACallFailed) {
  Echo echo;
  ClientRig rig;
  const auto to = local(echo.server->port());
  EXPECT_EQ(rig.call(to, "GET", "/drop"), "failed: connection closed before the response was complete");
  const auto nowhere = to;
  echo.server->stop(Span());
  EXPECT_EQ(rig.call(nowhere, "GET", "/"), "failed: connection refused or timed out");
}

TEST(HttpClient, AHeaderMayHaveToComeByATime) {
  Echo echo;
  ClientRig rig;
  const auto to = local(echo.server->port());
  const auto handler = std::make_shared<Collect>();
  auto answer = handler->done.get_future();
  // Its options would wait for ten minutes.
  rig.loop.run([&] { rig.client->send(to, "GET", "/hold", {}, {}, handler, steady_now() + Span::ms(50)); });
  EXPECT_EQ(answer.get(), std::string("failed: ") + text_of(CallFailure::Timeout));
}

TEST(HttpClient, WhatThePeerHasBegunToAnswerIsNotSentAgain) {
  RawServer server([](int, int fd) {
    constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    if (RawServer::read_request(fd, "")) RawServer::say(fd, kOk);
    if (RawServer::read_request(fd, "")) RawServer::say(fd, "HTTP/1.1 102 Processing\r\n\r\n");
  });
  ClientRig rig;
  const auto to = local(server.port());
  EXPECT_EQ(rig.call(to, "GET", "/"), "200 ok");
  EXPECT_EQ(rig.call(to, "GET", "/"), std::string("failed: ") + text_of(CallFailure::Response));
  EXPECT_EQ(rig.call(to, "GET", "/"), "200 ok") << "another connection";
}

/// Of a response that comes byte by byte and never ends, behind `begin`.
std::string called_slowly(const std::string& begin, const ClientOptions& options, Instant head_by) {
  std::atomic<bool> over{false};
  RawServer slow([&](int, int fd) {
    if (!RawServer::read_request(fd, "")) return;
    RawServer::say(fd, begin);
    while (!over) {
      RawServer::say(fd, "x");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  Loop loop;
  std::unique_ptr<HttpClient> client;
  const auto handler = std::make_shared<Collect>();
  auto answer = handler->done.get_future();
  loop.run([&] {
    client = std::make_unique<HttpClient>(loop, options);
    client->send(local(slow.port()), "GET", "/", {}, {}, handler, head_by);
  });
  const bool given_up = answer.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  over = true;
  loop.run([&] { client.reset(); });
  return given_up ? answer.get() : "each byte gave it more time";
}

TEST(HttpClient, WhatComesByteByByteMustBeWholeInTime) {
  const std::string late = std::string("failed: ") + text_of(CallFailure::Timeout);
  const std::string head = "HTTP/1.1 200 OK\r\nX: ";
  EXPECT_EQ(called_slowly(head, {}, steady_now() + Span::ms(50)), late);
  EXPECT_EQ(called_slowly(head + "1\r\n\r\n", ClientOptions::within(Span::ms(200)), Instant::never()), late);
}

TEST(HttpClient, SendsAgainOnceWhenTheKeptConnectionWasClosed) {
  std::atomic<int> asked{0};
  LoopPool pool{1};
  auto server = std::move(*HttpServer::listen(pool, {}, [&](std::shared_ptr<Exchange> e) {
    // The second request comes on the connection of the first; so does the fifth on that of the fourth, and the sixth,
    // its repetition, on a fresh one.
    const int n = ++asked;
    if (n == 2 || n >= 5) return e->drop();
    e->respond(200, "text/plain", e->body());
  }));
  const auto endpoint = std::make_shared<const Endpoint>(
      resolve_endpoint("http://127.0.0.1:" + std::to_string(server->port()), "test").value());
  Loop loop;
  std::unique_ptr<HttpClient> client;
  loop.run([&] { client = std::make_unique<HttpClient>(loop, ClientOptions{}); });
  struct Answer final : ResponseHandler {
    std::string body;
    std::promise<std::string> end;
    void on_head(int, const HeaderFields&, std::int64_t) override {}
    void on_body(std::string_view bytes) override { body += bytes; }
    void on_end() override { end.set_value(body); }
    void on_failure(CallFailure failure) override { end.set_value(text_of(failure)); }
  };
  const auto ask = [&] {
    const auto answer = std::make_shared<Answer>();
    loop.run([&] { client->send(endpoint, "POST", "/", {}, {"in two ", "pieces"}, answer); });
    return answer->end.get_future().get();
  };
  EXPECT_EQ(ask(), "in two pieces");
  EXPECT_EQ(ask(), "in two pieces") << "the second was closed on us, the third is its repetition";
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(ask(), "in two pieces");
  EXPECT_EQ(ask(), text_of(CallFailure::Response)) << "twice is enough";
  EXPECT_EQ(asked, 6);
  loop.run([&] {
    EXPECT_EQ(client->retries(), 2);
    client.reset();
  });
  server.reset();
  pool.stop();
}

TEST(HttpClient, AResponseHandlerThatThrowsHearsOfItsFailure) {
  Echo echo;
  Loop loop;
  struct Thrower final : ResponseHandler {
    std::promise<CallFailure> failed;
    void on_head(int, const HeaderFields&, std::int64_t) override { throw std::runtime_error("planted"); }
    void on_body(std::string_view) override {}
    void on_end() override {}
    void on_failure(CallFailure failure) override { failed.set_value(failure); }
  };
  const auto handler = std::make_shared<Thrower>();
  const auto endpoint = std::make_shared<const Endpoint>(
      resolve_endpoint("http://127.0.0.1:" + std::to_string(echo.server->port()), "test").value());
  std::unique_ptr<HttpClient> client;
  loop.post([&] {
    client = std::make_unique<HttpClient>(loop, ClientOptions{});
    client->send(endpoint, "POST", "/", {}, "x", handler);
  });
  EXPECT_EQ(handler->failed.get_future().get(), CallFailure::Handler);
  std::promise<void> gone;
  loop.post([&] {
    client.reset();
    gone.set_value();
  });
  gone.get_future().wait();
}

TEST(Endpoint, ReadsUrls) {
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1:81/api/", "x")->prefix, "/api");
  EXPECT_EQ(resolve_endpoint("127.0.0.1", "x")->port, 80);
  EXPECT_FALSE(resolve_endpoint("https://127.0.0.1", "x").has_value());
  EXPECT_FALSE(resolve_endpoint("http://", "x").has_value());
  EXPECT_FALSE(resolve_endpoint("http://h:notaport", "x").has_value());
  EXPECT_FALSE(parse_host_port("127.0.0.1", "--listen").has_value());
  EXPECT_FALSE(parse_host_port("http://127.0.0.1:9100", "--admin").has_value()) << "a URL";
}

TEST(HttpServer, OfABurstNoMoreAreLetInThanThereIsRoomFor) {
  ServerOptions options;
  options.max_connections = 4;
  Echo echo(options);
  std::promise<void> all_wait;
  std::promise<void> held_up;
  echo.pool.at(0).post([&] {
    held_up.set_value();
    all_wait.get_future().wait();
  });
  held_up.get_future().wait();
  std::vector<std::unique_ptr<RawClient>> clients;  // the kernel has taken them; now the server finds them all at once
  for (int i = 0; i < 40; ++i) clients.push_back(std::make_unique<RawClient>(echo.server->port()));
  all_wait.set_value();
  int served = 0;
  for (const auto& client : clients) {
    client->send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
    if (client->response().ends_with("hi")) ++served;
  }
  EXPECT_EQ(served, options.max_connections);
}

TEST(HttpServer, UnansweredBodiesTogetherHaveABound) {
  ServerOptions options;
  options.total_body_bytes = 1 << 20;
  options.limits.body_bytes = 900'000;
  Echo echo(options);
  const std::string head = " HTTP/1.1\r\nHost: h\r\nContent-Length: 800000\r\n\r\n";
  const std::string body(800'000, 'y');
  auto arrives = echo.held.get_future();
  RawClient first(echo.server->port());
  first.send("POST /hold" + head + body);
  ASSERT_EQ(arrives.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  auto held = arrives.get();
  RawClient second(echo.server->port());
  second.send("POST /" + head + body);
  const std::string refused = second.response();
  EXPECT_NE(refused.find("HTTP/1.1 503"), std::string::npos) << refused;
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), std::string::npos) << refused;
  RawClient small(echo.server->port());
  small.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_TRUE(small.response().ends_with("abc")) << "small ones always have room";
  held->loop().post([held] { held->respond(200, "text/plain", "held"); });
  EXPECT_TRUE(first.response().ends_with("held"));
  held.reset();
  RawClient third(echo.server->port());
  third.send("POST /" + head + body);
  EXPECT_TRUE(third.response().ends_with("yyy")) << "what was answered takes no room";
}

}  // namespace
}  // namespace wattle::net
