#pragma once
// TLS for the server's connections, over bytes: no sockets. A wrapper that hides OpenSSL.
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
  /// Reads the files again and uses a changed certificate or key for new connections. If they are invalid, nothing
  /// changes and the error is returned once. From one thread at a time.
  [[nodiscard]] std::optional<Error> look() const;
  /// OpenSSL's object for a connection; owned by the caller.
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

  /// Processes bytes from the peer: decrypted data is appended to `plain`, bytes to be sent (of a handshake) to
  /// `sealed`. False: not TLS, or tampered with; `sealed` may contain an alert.
  [[nodiscard]] bool open(std::string_view bytes, std::string& plain, std::string& sealed);
  /// False: the handshake is not over, or the session is broken.
  [[nodiscard]] bool seal(std::string_view plain, std::string& sealed);
  [[nodiscard]] bool established() const;
  /// The last bytes to be sent: they tell the peer that nothing was cut off.
  void close(std::string& sealed);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::net
