#pragma once
// Private to net/: a stream socket (TCP's or a Unix one) in a loop's epoll set, and what can be done with it now.
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/loop_impl.h"

namespace wattle::net {

/// Owns a non-blocking descriptor. Loop thread only, once it is watched.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept { *this = std::move(other); }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  /// From now on `owner` hears of it, until it is closed. False: the kernel has no room for that.
  [[nodiscard]] bool watch(Loop::Impl& loop, Watcher& owner);
  /// What on_events() was given. It is readable until a read has found less than it had room for.
  void note(std::uint32_t events);
  [[nodiscard]] bool readable() const { return readable_; }
  [[nodiscard]] bool writable() const { return writable_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  enum class Result : std::uint8_t {
    Some,
    None,  ///< not now: on_events() will say when
    End,   ///< the peer has ended its half
    Broken,
  };
  struct Io {
    std::size_t bytes = 0;
    Result result = Result::Some;
  };
  [[nodiscard]] Io read(char* into, std::size_t room);
  /// What the kernel takes at once, maybe not all.
  [[nodiscard]] Io write(std::span<const iovec> pieces);
  [[nodiscard]] Io write(std::string_view bytes);

  /// errno of a connection that was being made; 0: it stands.
  [[nodiscard]] int connect_error() const;
  void no_delay() const;  ///< TCP only; nothing on others
  void shut_sending() const;
  void close();

 private:
  template <typename Call>
  [[nodiscard]] Io tried(Call&& send);

  int descriptor_ = -1;
  Loop::Impl* loop_ = nullptr;
  Watcher* owner_ = nullptr;
  bool readable_ = false;
  bool writable_ = true;
  bool to_the_end_ = false;  ///< it has ended or broken: a short read is not the last one
};

/// As socket calls take it.
struct SocketAddress {
  sockaddr_storage at{};
  socklen_t size = 0;
};
/// Of a number, not of a name; none: it is none.
[[nodiscard]] std::optional<SocketAddress> tcp_address(const std::string& host, std::uint16_t port);
/// `path` fits.
[[nodiscard]] SocketAddress unix_address(const std::string& path);

/// A connection that is being made, or stands: on_events() says that it is writable, connect_error() what became of it.
/// `error`: errno where it cannot even be tried.
[[nodiscard]] Socket connect_to(const SocketAddress& address, int& error);

}  // namespace wattle::net
