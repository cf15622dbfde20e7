#pragma once
// Private to transport/: the Asio half of Loop. Keep it out of other folders (compile time).
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "net/loop.h"

namespace wattle::net {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

struct Loop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread;
};

}  // namespace wattle::net
