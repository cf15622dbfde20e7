#pragma once
// TLS for connections of ours, over bytes: no sockets. OpenSSL does the work, behind a wall.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

struct ssl_st;

namespace wattle::net {

/// A certificate chain and its key, from PEM files; TLS 1.2 and 1.3, ALPN "http/1.1". Thread-safe.
class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> server(const std::string& certificate_file,
                                                          const std::string& key_file);
  ~TlsContext();
  /// Takes what the files hold now, if that is another certificate or key: for connections from then on. What is wrong
  /// leaves it as it was, and is said once. From one thread at a time.
  [[nodiscard]] std::optional<Error> look() const;
  /// OpenSSL's own object for a connection, the caller's.
  [[nodiscard]] ssl_st* session() const;

 private:
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The server's end of one connection.
class TlsSession {
 public:
  explicit TlsSession(std::shared_ptr<const TlsContext> context);
  ~TlsSession();

  /// What the peer has sent: what that says goes to `plain`, what is to be sent in turn (of a handshake) to `sealed`.
  /// False: it does not speak TLS, or has been tampered with; `sealed` may hold an alert.
  [[nodiscard]] bool open(std::string_view bytes, std::string& plain, std::string& sealed);
  /// False: the handshake is not over, or the session is broken.
  [[nodiscard]] bool seal(std::string_view plain, std::string& sealed);
  [[nodiscard]] bool established() const;
  /// The last thing to be sent: so that the peer knows that nothing was cut off.
  void close(std::string& sealed);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::net
