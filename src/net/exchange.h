#pragma once
// The interface between an HTTP server and its handlers.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_parser.h"
#include "net/loop.h"
#include "net/peer.h"
#include "net/sse_parser.h"

namespace wattle::net {

/// One request and its response. Everything here runs on loop()'s thread; hand work back with loop().post().
/// Keep the shared_ptr as long as you may still answer. Calls after the client has gone are ignored.
class Exchange {
 public:
  virtual ~Exchange() = default;

  [[nodiscard]] virtual std::string_view method() const = 0;
  [[nodiscard]] virtual std::string_view target() const = 0;  ///< with the query, as sent
  [[nodiscard]] std::string_view path() const { return target().substr(0, target().find('?')); }
  [[nodiscard]] virtual const HeaderFields& headers() const = 0;
  /// Stays alive until the response is finished. Capacity exceeds size by RequestParser::kBodyPadding.
  [[nodiscard]] virtual const std::string& body() const = 0;
  [[nodiscard]] virtual Loop& loop() = 0;
  /// The calling process, if the request came over a Unix socket; else null.
  [[nodiscard]] virtual const Peer* peer() const { return nullptr; }

  /// State that the handler keeps for the next request on this connection; null at the first.
  [[nodiscard]] virtual std::shared_ptr<const void>& kept() = 0;

  /// Adds header lines, each ended by CRLF, to the response to this request. Call before the response begins.
  virtual void add_headers(std::string_view lines) = 0;
  /// A whole response. `extra_headers` are complete lines, each ended by CRLF.
  virtual void respond(int status, std::string_view content_type, std::string_view body,
                       std::string_view extra_headers = {}) = 0;
  /// A response in pieces: begin, write..., finish. Without a length the body is chunked. Writes made in one turn of
  /// the loop leave in one system call.
  virtual void begin(int status, std::string_view content_type, std::string_view extra_headers = {},
                     std::optional<std::uint64_t> content_length = std::nullopt) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void finish() = 0;
  /// Gives up in the middle of the response: closes the connection, so that the client sees that it is incomplete.
  virtual void drop() = 0;

  /// The client left before the response was finished. Called once at most; not after finish().
  virtual void on_gone(std::function<void()> handler) = 0;
  /// Bytes written but not yet accepted by the kernel. Above a bound of its own, a handler should stop writing until
  /// on_drained fires.
  [[nodiscard]] virtual std::size_t unsent_bytes() const = 0;
  /// Fires once when the kernel has accepted everything written.
  virtual void on_drained(std::function<void()> handler) = 0;
};

class TlsContext;

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;          ///< 0 = any free one
  std::string unix_path;           ///< a Unix socket there instead; empty: host and port
  std::uint32_t unix_mode = 0600;  ///< of that socket's file
  HttpLimits limits;
  std::int32_t max_connections = 16384;  ///< beyond, new ones are closed at once
  Span header_timeout = Span::s(10);     ///< first byte of a request to the end of its header
  Span body_timeout = Span::s(60);       ///< header to the end of the body
  Span idle_timeout = Span::s(75);       ///< between requests
  Span write_timeout = Span::s(60);      ///< a client that reads no byte for this long is cut off
  /// A client with more unread bytes is cut off. One event of a stream is written as a whole.
  std::size_t max_unsent_bytes = SseParser::kMostEvent + (8 << 20);
  /// Limit on the total size of the bodies of unanswered requests. Beyond it, bodies above kSmallBody are refused.
  std::int64_t total_body_bytes = 256 << 20;
  static constexpr std::int64_t kSmallBody = 64 << 10;
  std::shared_ptr<const TlsContext> tls = nullptr;  ///< null: plain text
};

/// Called for each complete request, on the connection's loop.
using RequestHandler = std::function<void(std::shared_ptr<Exchange>)>;
/// Body of the response to a request the server itself refuses (400, 408, 413, 431, 505), as JSON.
using ProblemBody = std::function<std::string(int status, std::string_view what)>;

}  // namespace wattle::net
