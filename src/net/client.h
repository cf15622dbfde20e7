#pragma once
// An HTTP/1.1 client for one loop: keep-alive connections per endpoint, one request at a time on each, responses pushed
// to a handler as they come. A request is sent again in one case only: the kept connection it went out on was closed
// before the first byte of an answer came.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/http_parser.h"
#include "net/loop.h"

namespace wattle::net {

/// Where requests go: a resolved http:// URL, or unix:PATH.
struct Endpoint {
  std::string url;        ///< with its scheme, without a trailing slash
  std::string host_port;  ///< for the Host header
  std::string prefix;     ///< path of the URL, put before every target; "" or "/x"
  std::string address;    ///< numeric; empty: unix_path, or it has not been resolved
  std::uint16_t port = 0;
  std::string unix_path = {};  ///< of a Unix socket
  std::string place = {};      ///< address and port, or the socket: connections are kept by it; empty: not resolved
};
/// Resolves names (blocks). A final /v1, as in base URLs of OpenAI's clients, is removed: targets include it. `where`
/// names the flag or key in the error; External: the name has no address now.
Result<Endpoint> resolve_endpoint(std::string_view url, std::string_view where);
/// The same without an address: calls to it fail, as to an endpoint that refuses connections.
Result<Endpoint> unresolved_endpoint(std::string_view url, std::string_view where);
/// The same text for all URLs of one scheme, host, port and path; resolves nothing. Errors as above.
Result<std::string> normalised_url(std::string_view url, std::string_view where);
/// What gateway and agents call an engine: where it publishes its step reports or, if it publishes none, its URL as
/// normalised. Errors: as normalised_url.
Result<std::string> engine_name(const std::string& step_reports, std::string_view url, std::string_view where);

enum class CallFailure : std::uint8_t {
  Connect,    ///< no connection; the request was not sent
  Resources,  ///< the same, because this process has no descriptors or ports left
  Send,       ///< broke while sending
  Response,   ///< closed before the response was complete
  Malformed,  ///< not HTTP
  Framing,    ///< its header states its length ambiguously
  Header,     ///< its header is larger than header_bytes
  Coding,     ///< it has a Content-Encoding, although none was requested
  Timeout,
  Handler,  ///< the handler threw: a fault of this process, not of the peer
};
[[nodiscard]] const char* text_of(CallFailure failure);

/// Gets exactly one of on_end and on_failure, last; neither after Call::cancel().
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  /// A connection is established and the request is sent: from now on the peer may see it. Called again for a second
  /// connection if the first was an idle one that the peer had closed.
  virtual void on_sent() {}
  virtual void on_head(int status, const HeaderFields& headers, std::int64_t content_length) = 0;
  virtual void on_body(std::string_view bytes) = 0;
  /// Called after all on_body() calls of one read, so that they can be acted on together.
  virtual void on_turn() {}
  virtual void on_end() = 0;
  virtual void on_failure(CallFailure failure) = 0;
  /// Name of the request in the log; empty: none.
  [[nodiscard]] virtual std::string_view log_name() const { return {}; }
};

class Call {
 public:
  virtual ~Call() = default;
  /// Closes the connection, the only way in HTTP/1.1 to tell an engine to stop. The handler is not called any more.
  virtual void cancel() = 0;
  /// Stops reading until resume(), which puts back-pressure on the peer.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

/// A request's body in up to two pieces, borrowed.
struct Body {
  std::string_view first;
  std::string_view second;
  Body() = default;
  Body(std::string_view whole) : first(whole) {}    // NOLINT(google-explicit-constructor): most bodies are one piece
  Body(const std::string& whole) : first(whole) {}  // NOLINT(google-explicit-constructor)
  Body(const char* whole) : first(whole) {}         // NOLINT(google-explicit-constructor)
  Body(std::string_view a, std::string_view b) : first(a), second(b) {}
  [[nodiscard]] std::size_t size() const { return first.size() + second.size(); }
};

struct ClientOptions {
  Span connect_timeout = Span::s(2);
  Span head_timeout = Span::s(600);  ///< request sent to the end of the response's header (a long prefill, a queue)
  Span body_timeout = Span::s(120);  ///< between two pieces of the body
  Span whole_timeout = Span::max();  ///< request sent to the end of the response
  Span idle_timeout = Span::s(50);   ///< keep shorter than the peers' own, or they close first
  std::uint32_t header_bytes = 32 * 1024;
  std::size_t max_idle_per_endpoint = 1024;
  /// Of calls whose response is short and comes at once.
  [[nodiscard]] static ClientOptions within(Span whole) {
    ClientOptions options;
    options.head_timeout = options.body_timeout = options.whole_timeout = whole;
    return options;
  }
};

/// Loop thread only, destructor included.
class HttpClient {
 public:
  HttpClient(Loop& loop, const ClientOptions& options);
  ~HttpClient();

  /// `extra_headers` are complete lines, each ended by CRLF; `Accept-Encoding: identity` is always sent. `body` is
  /// borrowed until the handler's last call; the handler is kept alive until then. The response's header must come by
  /// `head_by` and within head_timeout.
  std::shared_ptr<Call> send(const std::shared_ptr<const Endpoint>& endpoint, std::string_view method,
                             std::string_view target, std::string_view extra_headers, const Body& body,
                             std::shared_ptr<ResponseHandler> handler, Instant head_by = Instant::never());
  [[nodiscard]] std::int64_t retries() const;  ///< requests sent again, see above; from any thread

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace wattle::net
