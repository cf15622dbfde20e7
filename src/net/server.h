#pragma once
// An HTTP/1.1 server over a pool of loops: accepts on the first loop and serves each connection on one loop. Bounded
// headers, bodies and connections, deadlines, keep-alive, drain.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/exchange.h"

namespace wattle::net {

struct ServerState;

class HttpServer {
 public:
  /// Binds and listens at once, so that port() is known; fails if the address is in use or not local.
  static Result<std::unique_ptr<HttpServer>> listen(LoopPool& pool, const ServerOptions& options,
                                                    RequestHandler handler, ProblemBody problem_body = {});
  ~HttpServer();  ///< stop() with no grace

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::int64_t connections() const;
  /// Stops accepting and lets running responses finish for up to `grace`, or until `at_once` returns true; then calls
  /// `last_words`, which may end the remaining responses properly, and closes them. Both run on the caller's thread.
  /// Blocks; not from a loop's thread. The pool must still run.
  void stop(Span grace, const std::function<void()>& last_words = {}, const std::function<bool()>& at_once = {});

 private:
  explicit HttpServer(std::shared_ptr<ServerState> state);
  std::shared_ptr<ServerState> state_;
};

/// "host:port" for flags; IPv6 hosts in brackets.
struct HostPort {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
  /// As parse_host_port reads it.
  [[nodiscard]] std::string text() const;
};
Result<HostPort> parse_host_port(std::string_view text, std::string_view where);

}  // namespace wattle::net
