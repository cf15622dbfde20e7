#include "launch/admin_call.h"

#include <gtest/gtest.h>

#include "net/raw_server_test.h"

namespace wattle::launch {
namespace {

TEST(AdminCaller, BoundsAnAnswer) {
  const std::string piece(1 << 20, 'x');
  std::size_t pieces = 8;
  net::RawServer server([&](int, int fd) {
    net::RawServer::read_request(fd, "GET");
    net::RawServer::say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " +
                                std::to_string(pieces * piece.size()) + "\r\n\r\n");
    for (std::size_t i = 0; i < pieces; ++i) net::RawServer::say(fd, piece);
  });
  AdminCaller caller;
  const auto whole = caller.call(server.url(), "GET", "/");
  ASSERT_TRUE(whole.has_value()) << whole.error().message();
  EXPECT_EQ(whole->body.size(), 8U << 20);
  pieces = 9;
  const auto larger = caller.call(server.url(), "GET", "/");
  ASSERT_FALSE(larger.has_value());
  EXPECT_NE(larger.error().what.find("larger than 8 MiB"), std::string::npos);
}

}  // namespace
}  // namespace wattle::launch
