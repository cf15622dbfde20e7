#pragma once
// Tests only: a blocking loopback socket that sends and reads exactly what a test says, well-formed or not.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

namespace wattle::net {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{20, 0};  // a test that waits longer than this has failed
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  explicit RawClient(const std::string& unix_path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    unix_path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int descriptor() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// Reads until `ending` has been seen (or the peer closed); returns everything read since the last call.
  std::string until(std::string_view ending) {
    while (pending_.find(ending) == std::string::npos && fill()) {
    }
    const std::size_t at = pending_.find(ending);
    const std::size_t end = at == std::string::npos ? pending_.size() : at + ending.size();
    std::string out = pending_.substr(0, end);
    pending_.erase(0, end);
    return out;
  }
  std::string all() {
    while (fill()) {
    }
    return std::move(pending_);
  }
  /// One response with a Content-Length: header and body.
  std::string response() {
    std::string out = until("\r\n\r\n");
    const std::size_t at = out.find("Content-Length: ");
    if (at == std::string::npos) return out;
    const std::size_t length = std::stoul(out.substr(at + 16));
    while (pending_.size() < length && fill()) {
    }
    out += pending_.substr(0, length);
    pending_.erase(0, length);
    return out;
  }

 private:
  bool fill() {
    char buffer[4096];
    ssize_t n = -1;
    do n = ::recv(fd_, buffer, sizeof buffer, 0);
    while (n < 0 && errno == EINTR);  // with a time-out it does not go on by itself where the process was stopped
    if (n <= 0) return false;
    pending_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  int fd_;
  bool connected_ = false;
  std::string pending_;
};

}  // namespace wattle::net
