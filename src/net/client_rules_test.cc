// What a client says of answers that are none, and what no URL may hold.
#include <gtest/gtest.h>

#include <future>

#include "net/client.h"
#include "net/raw_server_test.h"
#include "net/server.h"

namespace wattle::net {
namespace {

/// What a call to a server that says these bytes comes to.
std::string called(const std::string& answer, const std::string& body = "") {
  struct Collect final : ResponseHandler {
    std::promise<std::string> done;
    int status = 0;
    void on_head(int said, const HeaderFields&, std::int64_t) override { status = said; }
    void on_body(std::string_view) override {}
    void on_end() override { done.set_value(status == 200 ? "end" : std::to_string(status)); }
    void on_failure(CallFailure failure) override { done.set_value(text_of(failure)); }
  };
  RawServer server([&](int, int fd) {
    if (RawServer::read_request(fd, "Accept-Encoding: identity\r\n")) RawServer::say(fd, answer);
  });
  Loop loop;
  std::unique_ptr<HttpClient> client;
  const auto handler = std::make_shared<Collect>();
  auto result = handler->done.get_future();
  loop.post([&] {
    client = std::make_unique<HttpClient>(loop, ClientOptions());
    const auto endpoint = std::make_shared<const Endpoint>(resolve_endpoint(server.url(), "test").value());
    client->send(endpoint, "GET", "/", {}, body, handler);
  });
  std::string out = result.get();
  std::promise<void> gone;
  loop.post([&] {
    client.reset();
    gone.set_value();
  });
  gone.get_future().wait();
  return out;
}

TEST(ClientRules, AClientSaysWhatIsWrongWithAResponse) {
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(called(ok + "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi"), "end");
  EXPECT_EQ(called(ok + "Content-Length: 9\r\n\r\nhi"), text_of(CallFailure::Response));
  EXPECT_EQ(called("HTTP/1.1 abc\r\n\r\n"), text_of(CallFailure::Malformed));
  EXPECT_EQ(called(ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi"), text_of(CallFailure::Framing));
  EXPECT_EQ(called(ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), text_of(CallFailure::Framing));
  EXPECT_EQ(called(ok + "X: " + std::string(70'000, 'x') + "\r\n\r\n"), text_of(CallFailure::Header));
  EXPECT_EQ(called(ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b"), text_of(CallFailure::Coding));
}

TEST(ClientRules, AnAnswerToARequestThatThePeerDoesNotReadIsHeard) {
  const std::string large(32 << 20, 'x');  // more than the kernel takes on its own
  EXPECT_EQ(called("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno", large), "413");
}

TEST(Endpoint, HasNothingInItThatEndsALineOrALabel) {
  for (const char* url :
       {"http://127.0.0.1:1/a b", "http://127.0.0.1:1/a\r\nX-Mine: 1", "http://127.0.0.1:1/\"", "http://127.0.0.1:1/\\",
        "http://127.0.0.1:1/\x7f", "http://127.0.0.1:1/\xc3\xa9", "unix:/run/a b", "unix:/run/\n", "127.0.0.1:1 ",
        "http://127.0.0.1:1/a?b=c", "http://127.0.0.1:1/a#b", "http://me@127.0.0.1:1/a"}) {
    EXPECT_FALSE(resolve_endpoint(url, "x").has_value()) << url;
  }
  EXPECT_EQ(resolve_endpoint("unix:/run/caf\xc3\xa9", "x")->unix_path, "/run/caf\xc3\xa9");
}

TEST(Endpoint, OneTextForOnePlace) {
  for (const char* url : {"http://Host.example:80/x/", "host.example/x", "http://host.example:80/x"}) {
    EXPECT_EQ(normalised_url(url, "x").value(), "http://host.example:80/x") << url;
  }
  EXPECT_NE(normalised_url("http://h:1/x", "x").value(), normalised_url("http://h:1/y", "x").value());
  for (const char* url : {"http://h:1", "http://h:1/v1", "http://h:1/v1/", "h:1//v1"}) {
    EXPECT_EQ(normalised_url(url, "x").value(), "http://h:1") << url;
  }
  for (const char* url : {"http://[::1]:9", "[0:0:0:0:0:0:0:1]:9/", "http://[0::0001]:9"}) {
    EXPECT_EQ(normalised_url(url, "x").value(), "http://[::1]:9") << url;
  }
  EXPECT_EQ((HostPort{"::1", 9}.text()), "[::1]:9");
  EXPECT_EQ((HostPort{"h", 9}.text()), "h:9");
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1:1/llm/v1/", "x")->prefix, "/llm");
  EXPECT_EQ(resolve_endpoint("http://127.0.0.1:1/v1x", "x")->prefix, "/v1x");
  EXPECT_EQ(normalised_url("unix:/a", "x").value(), "unix:/a");
  EXPECT_FALSE(normalised_url("http://", "x").has_value());
}

}  // namespace
}  // namespace wattle::net
