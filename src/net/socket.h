#pragma once
// Private to net/: a stream socket (TCP or Unix) in a loop's epoll set, with its present readiness.
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

/// Owns a non-blocking descriptor. Once watched, loop thread only.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept { *this = std::move(other); }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  /// Events go to `owner` until it is closed. False: the kernel's limit of watches is reached.
  [[nodiscard]] bool watch(Loop::Impl& loop, Watcher& owner);
  /// Records the events that on_events() got. The socket counts as readable until a read returns less than asked for.
  void note(std::uint32_t events);
  [[nodiscard]] bool readable() const { return readable_; }
  [[nodiscard]] bool writable() const { return writable_; }
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

  enum class Result : std::uint8_t {
    Some,
    None,  ///< nothing now: on_events() will be called
    End,   ///< the peer has ended its half
    Broken,
  };
  struct Io {
    std::size_t bytes = 0;
    Result result = Result::Some;
  };
  [[nodiscard]] Io read(char* into, std::size_t room);
  /// Writes what the kernel accepts at once, perhaps only a part.
  [[nodiscard]] Io write(std::span<const iovec> pieces);
  [[nodiscard]] Io write(std::string_view bytes);

  /// errno of a connection attempt; 0: connected.
  [[nodiscard]] int connect_error() const;
  void no_delay() const;  ///< TCP only; does nothing for others
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
  bool to_the_end_ = false;  ///< ended or broken: a short read is not the last one
};

/// In the form of the socket calls.
struct SocketAddress {
  sockaddr_storage at{};
  socklen_t size = 0;
};
/// From a numeric address; none: not a numeric address.
[[nodiscard]] std::optional<SocketAddress> tcp_address(const std::string& host, std::uint16_t port);
/// `path` must fit.
[[nodiscard]] SocketAddress unix_address(const std::string& path);

/// Begins to connect: when on_events() reports that it is writable, connect_error() has the result. `error`: errno if
/// the attempt cannot be started.
[[nodiscard]] Socket connect_to(const SocketAddress& address, int& error);

}  // namespace wattle::net
