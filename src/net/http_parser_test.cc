#include "net/http_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace wattle::net {
namespace {

constexpr const char* kGet = "GET / HTTP/1.1\r\nHost: h\r\n";

/// What a server says to these bytes; 0: it is served, or waits for more.
int status_of(std::string_view bytes, HttpLimits limits = {}) {
  RequestParser parser(limits);
  (void)parser.feed(bytes);
  return parser.problem().status;
}

struct Sunk final : BodySink {
  std::string body;
  void on_body_piece(std::string_view bytes) override { body += bytes; }
};

/// Feeds pieces of one size, holding what is not taken, as connections do. What was not taken of them in the end.
template <typename Parser>
std::string feed_in_pieces(Parser& parser, std::string_view bytes, std::size_t size) {
  std::string held;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    held += bytes.substr(at, size);
    while (!held.empty() && !parser.done() && !parser.problem()) {
      const std::size_t taken = parser.feed(held);
      held.erase(0, taken);
      if (taken == 0) break;
    }
  }
  return held;
}

TEST(RequestParser, ReadsARequestHoweverItComes) {
  const std::string bytes =
      "POST /v1/x?q=1 HTTP/1.1\r\nHost: h:80\r\nX-Empty:\r\nX-Spaces: \t a b \t \r\nx-high: \xc3\xa9\r\n"
      "Transfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0A ; c\r\n0123456789\r\n0\r\nX-Trailer: x\r\n\r\nGET";
  for (const std::size_t size : {bytes.size(), std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{64}}) {
    RequestParser parser({});
    EXPECT_EQ(feed_in_pieces(parser, bytes, size).substr(0, 3), std::string("GET").substr(0, 3)) << size;
    ASSERT_TRUE(parser.done()) << size << parser.problem().what;
    EXPECT_EQ(parser.method(), "POST");
    EXPECT_EQ(parser.target(), "/v1/x?q=1");
    EXPECT_EQ(parser.body(), "abc0123456789");
    EXPECT_GE(parser.body().capacity(), parser.body().size() + RequestParser::kBodyPadding);
    EXPECT_TRUE(parser.keep_alive());
    EXPECT_EQ(parser.headers().size(), 5U) << "a trailer is none of them";
    EXPECT_EQ(parser.headers().get("x-empty"), "");
    EXPECT_EQ(parser.headers().get("X-SPACES"), "a b");
    EXPECT_EQ(parser.headers().get("X-High"), "\xc3\xa9");
    EXPECT_EQ(parser.headers().at(1).name, "X-Empty");
    parser.reset();
    EXPECT_EQ(parser.feed("GET / HTTP/1.0\r\n\r\n"), 18U);
    EXPECT_TRUE(parser.done());
    EXPECT_FALSE(parser.keep_alive());
    EXPECT_FALSE(parser.http11());
    EXPECT_EQ(parser.body() + std::string(parser.headers().get("Host")), "");
  }
}

TEST(Status, HasItsStandardPhrase) {
  EXPECT_EQ(status_text(302), "Found");
  EXPECT_EQ(status_text(206), "Partial Content");
  EXPECT_EQ(status_text(299), "Status");
}

TEST(RequestParser, WhatTwoReadersCouldReadInTwoWaysIsRefused) {
  const std::string get = kGet;
  for (const std::string& fields :
       std::vector<std::string>{"X: a\n\r\n",
                                "X: a\nY: b\r\n\r\n",
                                "X: a\r\r\n\r\n",
                                "X: a\rb\r\n\r\n",
                                "X : a\r\n\r\n",
                                " X: a\r\n\r\n",
                                "X: a\r\n b\r\n\r\n",
                                "X: a\r\n\tb\r\n\r\n",
                                "X\r\n\r\n",
                                ": a\r\n\r\n",
                                "X(: a\r\n\r\n",
                                "X: a\x01\r\n\r\n",
                                "X: a\x7f\r\n\r\n",
                                std::string("X: a\0b\r\n\r\n", 10),
                                "Connection: close;now\r\n\r\n",
                                "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
                                "Content-Length: 1, 2\r\n\r\n",
                                "Content-Length: +1\r\n\r\n",
                                "Content-Length: -1\r\n\r\n",
                                "Content-Length: 0x1\r\n\r\n",
                                "Content-Length: 1 1\r\n\r\n",
                                "Content-Length:\r\n\r\n",
                                "Content-Length: 1,\r\n\r\n",
                                "Content-Length: 9223372036854775808\r\n\r\n",
                                "Content-Length: 99999999999999999999\r\n\r\n",
                                "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                                "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                                "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"}) {
    EXPECT_EQ(status_of(get + fields), 400) << fields;
  }
  for (const char* first :
       {"GET  / HTTP/1.1", "GET /\tHTTP/1.1", "GET / HTTP/1.1 ", "GET / http/1.1", "GET /", "GET", " GET / HTTP/1.1",
        "G(T / HTTP/1.1", "GET / HTTP/11", "GET / a HTTP/1.1", "GET / HTTP/1.x", ""}) {
    EXPECT_EQ(status_of(std::string(first) + "\r\nHost: h\r\n\r\n"), 400) << first;
  }
  EXPECT_EQ(status_of("GET / HTTP/1.1\n\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\nHost: h\n\n"), 400) << "and at once";
  EXPECT_EQ(status_of("GET / HTTP/1.2\r\nHost: h\r\n\r\n"), 505);
  for (const char* chunks :
       {"1 \r\na\r\n", "\r\n", "1\na\n", "1\r\nab\r\n", "1\r\na\n", "g\r\n", "-1\r\n", "0x1\r\n", "1;\x01\r\n",
        "1\r\na\r\n\r\n", "1;a\nb\r\n", "1;a=\"b\r\n", "1;a=\"\\\"\"\r\n", "10000000000000000\r\n",
        "0\r\nX : a\r\n\r\n", "0\r\n\n", "0\r\nX: a\rb\r\n\r\n", "1\r\nax"}) {
    const std::string bytes = get + "Transfer-Encoding: chunked\r\n\r\n" + chunks;
    EXPECT_EQ(status_of(bytes), 400) << chunks;
    RequestParser parser({});
    feed_in_pieces(parser, bytes, 1);
    EXPECT_EQ(parser.problem().status, 400) << chunks;
  }
}

TEST(RequestParser, OneLengthSaidTwiceIsOne) {
  RequestParser parser({});
  const std::string bytes = std::string(kGet) + "Content-Length: 3\r\nContent-Length: 3, 3\r\n\r\nabc";
  EXPECT_EQ(parser.feed(bytes + "d"), bytes.size());
  EXPECT_TRUE(parser.done());
  EXPECT_EQ(parser.body(), "abc");
}

TEST(RequestParser, SizesHaveBounds) {
  const HttpLimits limits{100, 10};
  const std::string get = kGet;
  EXPECT_EQ(status_of(get + "X: " + std::string(200, 'x'), limits), 431) << "before it ends";
  EXPECT_EQ(status_of(get + "X: " + std::string(200, 'x') + "\r\n\r\n", limits), 431);
  EXPECT_EQ(status_of(get + "Content-Length: 11\r\n\r\n", limits), 413);
  EXPECT_EQ(status_of(get + "Transfer-Encoding: chunked\r\n\r\nb\r\n", limits), 413);
  EXPECT_EQ(status_of(get + "Transfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\n", limits), 413);
  EXPECT_EQ(status_of(get + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n5\r\n", limits), 0);
  const std::string chunked = get + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status_of(chunked + "1;" + std::string(20'000, 'x')), 400) << "an extension without end";
  std::string trailers = chunked + "0\r\n";
  for (int i = 0; i < 2'000; ++i) trailers += "X-Trailer: x\r\n";
  EXPECT_EQ(status_of(trailers), 400);
  std::string many = get;
  for (int i = 0; i < 200; ++i) many += "X: y\r\n";
  EXPECT_EQ(status_of(many + "\r\n"), 431);
  EXPECT_EQ(status_of("\x16\x03\x01"), 400) << "TLS where none is spoken: no line's end to be waited for";
}

TEST(RequestParser, ABrokenBeginningIsReadOnceHoweverItComes) {
  RequestParser parser({1 << 20, 10});
  std::string bytes = kGet;
  for (int i = 0; i < 100'000; ++i) {  // quadratic, this would take minutes
    bytes += "x";
    EXPECT_EQ(parser.feed(bytes), 0U);
  }
  EXPECT_FALSE(parser.problem());
}

TEST(ResponseParser, ReadsResponsesHoweverTheyCome) {
  struct Case {
    const char* bytes;
    const char* body;
    std::int64_t length;
    bool keeps;
  };
  for (const auto& [bytes, body, length, keeps] : std::vector<Case>{
           {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 5, true},
           {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "", 0, true},
           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello", -1, true},
           {"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", "", 5, true},
           {"HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 1\r\n\r\na", "a", 1, false},
           {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "a", 1, false},
           {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", "a", 1, true},
           {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", -1,
            false}}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
      Sunk sunk;
      ResponseParser parser(1000, sunk);
      EXPECT_FALSE(parser.started());
      EXPECT_EQ(feed_in_pieces(parser, bytes, size), "") << bytes;
      EXPECT_TRUE(parser.started());
      EXPECT_TRUE(parser.done()) << bytes << parser.problem().what;
      EXPECT_EQ(sunk.body, body) << bytes;
      EXPECT_EQ(parser.content_length(), length) << bytes;
      EXPECT_EQ(parser.keep_alive(), keeps) << bytes;
    }
  }
}

TEST(ResponseParser, TheConnectionsEndIsAnEndOnlyWhereNothingElseIsSaid) {
  const auto ended = [](std::string_view bytes) {
    Sunk sunk;
    ResponseParser parser(1000, sunk);
    feed_in_pieces(parser, bytes, 1000);
    parser.feed_eof();
    return parser.done() && !parser.problem() ? sunk.body : "cut off";
  };
  EXPECT_EQ(ended("HTTP/1.1 200 OK\r\n\r\nhel"), "hel");
  EXPECT_EQ(ended("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"), "cut off");
  EXPECT_EQ(ended("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n"), "cut off");
  EXPECT_EQ(ended("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n"), "cut off");
  EXPECT_EQ(ended("HTTP/1.1 200 OK\r\nX: "), "cut off");
  EXPECT_EQ(ended(""), "cut off");
}

TEST(ResponseParser, RefusesWhatIsNone) {
  const auto problem = [](std::string_view bytes) {
    Sunk sunk;
    ResponseParser parser(1000, sunk);
    feed_in_pieces(parser, bytes, 1000);
    return parser.problem();
  };
  for (const char* bytes :
       {"HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 -10 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n", "SSH-2.0-x",
        "HTTP/1.1 200 O\x01\r\n\r\n", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n"}) {
    EXPECT_TRUE(problem(bytes)) << bytes;
    EXPECT_EQ(problem(bytes).kind, ParseProblem::Kind::Form) << bytes;
  }
  EXPECT_EQ(problem("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n").kind, ParseProblem::Kind::Framing);
  EXPECT_EQ(problem("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n").kind, ParseProblem::Kind::Framing);
  EXPECT_EQ(problem("HTTP/1.1 200 OK\r\nX: " + std::string(2000, 'x')).kind, ParseProblem::Kind::Size);
}

}  // namespace
}  // namespace wattle::net
