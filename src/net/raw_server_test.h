#pragma once
// Tests only: a server below HTTP. What it does with each connection, in turn, the test says.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace wattle::net {

class RawServer {
 public:
  using Serve = std::function<void(int connection, int fd)>;
  explicit RawServer(Serve serve) : fd_(::socket(AF_INET, SOCK_STREAM, 0)), serve_(std::move(serve)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (int i = 0;; ++i) {
        const int peer = ::accept(fd_, nullptr, nullptr);
        if (peer < 0) return;
        serve_(i, peer);
        ::close(peer);
      }
    });
  }
  ~RawServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// A request's header and, as far as it came along, its body, which has `part` in it. False: it did not come.
  static bool read_request(int fd, std::string_view part = "\"stream\"") {
    std::string all;
    char piece[4096];
    while (all.find("\r\n\r\n") == std::string::npos || all.find(part) == std::string::npos) {
      const ssize_t n = ::recv(fd, piece, sizeof piece, 0);
      if (n <= 0) return false;
      all.append(piece, static_cast<std::size_t>(n));
    }
    return true;
  }
  static void say(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

 private:
  int fd_;
  Serve serve_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace wattle::net
