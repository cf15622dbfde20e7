#pragma once
// Private to transport/: the Asio half of Loop. Keep it out of other folders (compile time).
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <thread>

#include "net/loop.h"

namespace wattle::net {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using Socket = asio::generic::stream_protocol::socket;  ///< TCP's or a Unix one

struct Loop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread;
  /// What a socket has just said, until it has been looked at: one buffer a loop instead of one a connection. Nobody
  /// may keep views of it beyond its turn.
  static constexpr std::size_t kScratchBytes = 64 * 1024;
  std::string plain;  ///< the same of what TLS said
  std::unique_ptr<char[]> scratch = std::make_unique_for_overwrite<char[]>(kScratchBytes);
};

}  // namespace wattle::net
