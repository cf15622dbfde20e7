#include "net/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace wattle::net {

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  loop_ = std::exchange(other.loop_, nullptr);
  owner_ = std::exchange(other.owner_, nullptr);
  readable_ = other.readable_;
  writable_ = other.writable_;
  to_the_end_ = other.to_the_end_;
  return *this;
}

bool Socket::watch(Loop::Impl& loop, Watcher& owner) {
  if (!loop.add(descriptor_, owner)) return false;
  loop_ = &loop;
  owner_ = &owner;
  return true;
}

void Socket::note(std::uint32_t events) {
  constexpr std::uint32_t kOver = EPOLLHUP | EPOLLERR;
  constexpr std::uint32_t kNotTheLast = kOver | EPOLLRDHUP | EPOLLPRI;  // urgent data ends a read early
  if ((events & kNotTheLast) != 0) to_the_end_ = true;
  if ((events & (EPOLLIN | kNotTheLast)) != 0) readable_ = true;
  if ((events & (EPOLLOUT | kOver)) != 0) writable_ = true;
}

Socket::Io Socket::read(char* into, std::size_t room) {
  for (;;) {
    const ssize_t n = ::recv(descriptor_, into, room, 0);
    if (n > 0) {
      const auto bytes = static_cast<std::size_t>(n);
      // Stream sockets: less than there was room for means that there was no more (epoll(7)); an edge says of the next.
      if (bytes < room && !to_the_end_) readable_ = false;
      return {bytes, Result::Some};
    }
    if (n == 0) return {0, Result::End};
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return {0, Result::Broken};
    readable_ = false;
    return {0, Result::None};
  }
}

template <typename Call>
Socket::Io Socket::tried(Call&& send) {
  for (;;) {
    const ssize_t n = send();
    if (n >= 0) return {static_cast<std::size_t>(n), Result::Some};
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return {0, Result::Broken};
    writable_ = false;
    return {0, Result::None};
  }
}

Socket::Io Socket::write(std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // POSIX has one struct for both ways
  message.msg_iovlen = pieces.size();
  return tried([&] { return ::sendmsg(descriptor_, &message, MSG_NOSIGNAL); });
}

Socket::Io Socket::write(std::string_view bytes) {
  return tried([&] { return ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
}

int Socket::connect_error() const {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

void Socket::no_delay() const {
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void Socket::shut_sending() const { ::shutdown(descriptor_, SHUT_WR); }

void Socket::close() {
  if (descriptor_ < 0) return;
  if (loop_ != nullptr) loop_->forget(*owner_);
  ::close(std::exchange(descriptor_, -1));
  loop_ = nullptr;
  owner_ = nullptr;
  readable_ = to_the_end_ = false;
  writable_ = true;
}

std::optional<SocketAddress> tcp_address(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return std::nullopt;
  SocketAddress out;
  std::memcpy(&out.at, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  ::freeaddrinfo(found);
  return out;
}

SocketAddress unix_address(const std::string& path) {
  SocketAddress out;
  auto& at = reinterpret_cast<sockaddr_un&>(out.at);
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path.data(), std::min(path.size(), sizeof at.sun_path - 1));
  out.size = sizeof at;
  return out;
}

Socket connect_to(const SocketAddress& address, int& error) {
  error = 0;
  Socket socket(::socket(address.at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    error = errno;
    return {};
  }
  socket.no_delay();
  const auto* const at = reinterpret_cast<const sockaddr*>(&address.at);
  if (::connect(socket.descriptor(), at, address.size) != 0 && errno != EINPROGRESS) error = errno;
  return socket;
}

}  // namespace wattle::net
