#pragma once
// Incremental HTTP/1.1 message parsing over bytes: no sockets, so it can be fuzzed. Beast's parser does the work,
// behind a wall (its headers are slow to compile).
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace wattle::net {

struct HttpLimits {
  std::uint32_t header_bytes = 32 * 1024;
  std::uint64_t body_bytes = 8 * 1024 * 1024;
};

/// Why a message was refused, as the status a server should answer: 400, 413, 431, 501 or 505. 0 = nothing wrong so
/// far.
struct ParseProblem {
  enum class Kind : std::uint8_t { Form, Framing, Size };
  int status = 0;
  const char* what = "";
  Kind kind = Kind::Form;  ///< Framing: how long the message is cannot be relied on
  explicit operator bool() const { return status != 0; }
};

/// One request at a time. feed() returns how many bytes it took; give it the rest again, with more behind it. Until the
/// header is complete nothing is taken, so the caller's buffer must be able to hold HttpLimits::header_bytes.
class RequestParser {
 public:
  explicit RequestParser(HttpLimits limits);
  ~RequestParser();

  std::size_t feed(std::string_view bytes);
  void reset();  ///< for the next request on the same connection

  [[nodiscard]] bool header_done() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] bool http11() const;
  [[nodiscard]] const ParseProblem& problem() const;
  [[nodiscard]] std::string_view method() const;
  [[nodiscard]] std::string_view target() const;  ///< in origin form, whichever it came in
  [[nodiscard]] const HeaderFields& headers() const;
  /// The body. Its capacity exceeds its size by kBodyPadding, as simdjson wants.
  [[nodiscard]] const std::string& body() const;
  static constexpr std::size_t kBodyPadding = 64;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Receives a response's body piece by piece, without chunk framing.
class BodySink {
 public:
  virtual ~BodySink() = default;
  virtual void on_body_piece(std::string_view bytes) = 0;
};

class ResponseParser {
 public:
  ResponseParser(std::uint32_t header_bytes, BodySink& sink);
  ~ResponseParser();

  /// Takes header and body in turn; stops after the header, so that the caller can announce it before the body comes.
  std::size_t feed(std::string_view bytes);
  void feed_eof();  ///< the peer closed: completes a body delimited by that, else is a problem
  void reset();

  [[nodiscard]] bool started() const;  ///< at least one byte was taken or refused
  [[nodiscard]] bool header_done() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] bool keep_alive() const;
  [[nodiscard]] const ParseProblem& problem() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] std::int64_t content_length() const;  ///< -1 = not stated
  [[nodiscard]] const HeaderFields& headers() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::net
