#pragma once
// Incremental HTTP/1.1 message parsing over bytes: no sockets, so it can be fuzzed.
#include <cstdint>
#include <string>
#include <string_view>

#include "net/http_body.h"
#include "net/http_head.h"
#include "net/http_message.h"

namespace wattle::net {

struct HttpLimits {
  std::uint32_t header_bytes = 32 * 1024;
  std::uint64_t body_bytes = 8 * 1024 * 1024;
};

/// One request at a time. feed() returns how many bytes it consumed; pass it the rest again with the bytes that follow.
/// Nothing is consumed until the header is complete, so the caller's buffer must be able to hold
/// HttpLimits::header_bytes.
class RequestParser {
 public:
  explicit RequestParser(HttpLimits limits) : limits_(limits) {}
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  std::size_t feed(std::string_view bytes);
  void reset();  ///< for the next request on the same connection

  [[nodiscard]] bool header_done() const { return header_done_; }
  [[nodiscard]] bool done() const { return header_done_ && !problem_ && body_reader_.done(); }
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }
  [[nodiscard]] bool http11() const { return http11_; }
  [[nodiscard]] const ParseProblem& problem() const { return problem_; }
  [[nodiscard]] std::string_view method() const { return method_; }
  [[nodiscard]] std::string_view target() const { return target_; }  ///< always in origin form
  [[nodiscard]] const HeaderFields& headers() const { return headers_; }
  /// The body. Its capacity exceeds its size by kBodyPadding, as simdjson requires.
  [[nodiscard]] const std::string& body() const { return body_; }
  static constexpr std::size_t kBodyPadding = 64;

 private:
  void take_head(std::string_view header);
  void add_body(std::string_view bytes);

  HttpLimits limits_;
  HeaderFields headers_;
  std::string_view method_;  ///< in the headers' copy
  std::string target_, body_;
  BodyReader body_reader_;
  ParseProblem problem_;
  std::size_t searched_ = 0;  ///< of a header that goes on
  bool header_done_ = false;
  bool keep_alive_ = false;
  bool http11_ = true;
};

/// Receives a response's body piece by piece, without chunk framing.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual void on_body_piece(std::string_view bytes) = 0;
};

class ResponseParser {
 public:
  ResponseParser(std::uint32_t header_bytes, BodySink& sink) : header_bytes_(header_bytes), sink_(sink) {}

  /// Consumes header and body; stops after the header, so that the caller can announce it before the body.
  std::size_t feed(std::string_view bytes);
  void feed_eof();  ///< the peer closed: ends a body that is delimited by this, otherwise an error
  void reset();

  [[nodiscard]] bool started() const { return started_; }  ///< at least one byte was consumed or refused
  [[nodiscard]] bool header_done() const { return header_done_; }
  [[nodiscard]] bool done() const { return ended_ || (header_done_ && body_reader_.done()); }
  [[nodiscard]] bool keep_alive() const { return head_.framing.keep_alive && !body_reader_.ends_with_connection(); }
  [[nodiscard]] const ParseProblem& problem() const { return problem_; }
  [[nodiscard]] int status() const { return head_.status; }
  [[nodiscard]] std::int64_t content_length() const {  ///< -1 = not stated
    return head_.framing.length ? static_cast<std::int64_t>(*head_.framing.length) : -1;
  }
  [[nodiscard]] const HeaderFields& headers() const { return headers_; }

 private:
  void take_head(std::string_view header);

  std::uint32_t header_bytes_;
  BodySink& sink_;
  HeaderFields headers_;
  ResponseHead head_;
  BodyReader body_reader_;
  ParseProblem problem_;
  std::size_t searched_ = 0;  ///< of a header that goes on
  bool started_ = false;
  bool header_done_ = false;
  bool ended_ = false;  ///< with the connection
};

}  // namespace wattle::net
