// What RFC 9112 demands of a server, where a lenient reading would cost the connection its framing.
#include <gtest/gtest.h>

#include <thread>

#include "net/raw_client_test.h"
#include "net/server.h"

namespace wattle::net {
namespace {

/// Says what it was asked for; /204 and /304 begin an answer of that status without saying its length.
struct Mirror {
  LoopPool pool{1};
  std::unique_ptr<HttpServer> server;
  Mirror() {
    server = std::move(*HttpServer::listen(pool, {}, [](const std::shared_ptr<Exchange>& e) {
      if (e->path() == "/204" || e->path() == "/304") {
        e->begin(e->path() == "/204" ? 204 : 304, "");
        return e->finish();
      }
      e->respond(200, "text/plain", std::string(e->method()) + " " + std::string(e->target()) + " " + e->body());
    }));
  }
  ~Mirror() {
    server.reset();
    pool.stop();
  }
  /// All answers to these bytes, until the server closes.
  std::string until_closed(const std::string& bytes) {
    RawClient client(server->port());
    client.send(bytes);
    return client.all();
  }
};

int answers_in(const std::string& text) {
  int n = 0;
  for (std::size_t at = text.find("HTTP/1.1 "); at != std::string::npos; at = text.find("HTTP/1.1 ", at + 1)) ++n;
  return n;
}

TEST(HttpRules, ACodingThatIsNotChunkedAloneEndsTheConnection) {
  Mirror mirror;
  const std::string hidden = "GET /hidden HTTP/1.1\r\nHost: other\r\n\r\n";
  for (const auto& [coding, status] : {std::pair{"identity", "400"},
                                       {"chunked, identity", "400"},
                                       {"xchunked", "400"},
                                       {"", "400"},
                                       {"chunked;q=1", "400"},
                                       {"gzip, chunked", "501"}}) {
    for (const char* length : {"", "Content-Length: 3\r\n"}) {
      const std::string answer = mirror.until_closed(std::string("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ") +
                                                     coding + "\r\n" + length + "\r\n" + hidden);
      EXPECT_EQ(answers_in(answer), 1) << coding << answer;
      EXPECT_EQ(answer.find("/hidden"), std::string::npos) << coding;
      EXPECT_NE(answer.find("Connection: close\r\n"), std::string::npos) << answer;
      EXPECT_EQ(answer.substr(9, 3), *length == '\0' ? status : answer.substr(9, 3)) << coding << answer;
    }
  }
  const std::string old =
      mirror.until_closed("POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(old.substr(9, 3), "400") << old;
  const std::string twice = mirror.until_closed(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
      hidden);
  EXPECT_EQ(answers_in(twice), 1) << twice;
  RawClient sound(mirror.server->port());
  sound.send("POST / HTTP/1.1\r\nHost: h\r\ntransfer-encoding: Chunked \r\n\r\n2\r\nok\r\n0\r\n\r\n");
  EXPECT_TRUE(sound.response().ends_with("POST / ok"));
}

TEST(HttpRules, ARequestHasOneHost) {
  Mirror mirror;
  const auto status = [&](const std::string& version, const std::string& hosts) {
    return mirror.until_closed("GET / HTTP/" + version + "\r\nConnection: close\r\n" + hosts + "\r\n").substr(9, 3);
  };
  EXPECT_EQ(status("1.1", ""), "400");
  EXPECT_EQ(status("1.1", "Host: a\r\nHost: b\r\n"), "400");
  EXPECT_EQ(status("1.1", "Host: a\r\nHost: a\r\n"), "400");
  EXPECT_EQ(status("1.1", "Host: a b\r\n"), "400");
  EXPECT_EQ(status("1.1", "Host: a/b\r\n"), "400");
  EXPECT_EQ(status("1.0", "Host: a\r\nHost: b\r\n"), "400");
  EXPECT_EQ(status("1.0", ""), "200");
  for (const char* host : {"Host: a:80\r\n", "Host: [::1]:80\r\n", "Host:\r\n", "host: a\r\n"}) {
    EXPECT_EQ(status("1.1", host), "200") << host;
  }
}

TEST(HttpRules, TargetsComeInAbsoluteFormToo) {
  Mirror mirror;
  RawClient client(mirror.server->port());
  for (const auto& [target, seen] : {std::pair{"http://a.example:80/v1/models?x=1", "/v1/models?x=1"},
                                     {"HTTP://a", "/"},
                                     {"https://a?x=1", "/?x=1"},
                                     {"/http://a/b", "/http://a/b"},
                                     {"*", "*"}}) {
    client.send(std::string("GET ") + target + " HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(client.response().ends_with(std::string("GET ") + seen + " ")) << target;
  }
}

TEST(HttpRules, Http10GetsNoContinue) {
  Mirror mirror;
  RawClient client(mirror.server->port());
  client.send("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for an answer that must not come
  client.send("ok");
  EXPECT_TRUE(client.all().starts_with("HTTP/1.1 200"));
}

TEST(HttpRules, AnswersWithoutABodyHaveNoFraming) {
  Mirror mirror;
  for (const char* path : {"/204", "/304"}) {
    RawClient client(mirror.server->port());
    const std::string ask = std::string("GET ") + path + " HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send(ask + "GET /next HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string first = client.until("\r\n\r\n");
    EXPECT_EQ(first.substr(9, 3), path + 1);
    EXPECT_EQ(first.find("Transfer-Encoding"), std::string::npos) << first;
    EXPECT_EQ(first.find("Content-Length"), std::string::npos) << first;
    EXPECT_TRUE(client.response().ends_with("GET /next ")) << "the connection serves on";
  }
}

}  // namespace
}  // namespace wattle::net
