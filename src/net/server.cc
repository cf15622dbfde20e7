#include "net/server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>

#include "net/clock.h"
#include "net/connection.h"

namespace wattle::net {

namespace {
/// For answers cut short to leave: a client that does not read has had its time.
constexpr Span kLastWords = Span::ms(250);

using Shared = std::shared_ptr<ServerState>;

template <typename Acceptor>
void accept_next(const Shared& server, std::optional<Acceptor> ServerState::*acceptor) {
  const int index = server->next_loop;
  server->next_loop = (index + 1) % server->pool.size();
  auto& context = server->pool.at(index).impl().context;
  ((*server).*acceptor)
      ->async_accept(
          context, [server, acceptor, index, &context](error_code ec, typename Acceptor::protocol_type::socket socket) {
            if (!((*server).*acceptor)) return;
            if (ec) {  // out of descriptors, or the client left while queued: breathe, go on
              server->pool.at(0).after(Span::ms(20), [server, acceptor] {
                if ((*server).*acceptor) accept_next(server, acceptor);
              });
              return;
            }
            if (server->connections.load(std::memory_order_relaxed) < server->options.max_connections) {
              asio::post(context, [server, index, s = std::move(socket)]() mutable {
                if (server->closed.load()) return;
                auto connection = std::make_shared<Connection>(server, index, Socket(std::move(s)));
                server->live[static_cast<std::size_t>(index)].insert(connection);
                connection->start();
              });
            }
            accept_next(server, acceptor);
          });
}

Result<void> listen_at(ServerState& state) {
  const ServerOptions& options = state.options;
  const std::string where = fmt::format("{}:{}", options.host, options.port);
  error_code ec;
  const auto address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, ec);
  if (ec) return bad_input(where, "not an IP address to listen on; say 127.0.0.1 or 0.0.0.0");
  const Tcp::endpoint endpoint(address, options.port);
  auto& acceptor = state.acceptor.emplace(state.pool.at(0).impl().context);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return external_failure(where, fmt::format("cannot listen: {}; choose a free port", ec.message()));
  state.port = acceptor.local_endpoint(ec).port();
  return {};
}

/// A socket's file that nobody listens at any more is left by one that was killed; nothing else is ever removed.
Result<void> clear(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return {};
  if (!S_ISSOCK(there.st_mode)) return bad_input("unix:" + path, "is there already, and is no socket");
  asio::io_context context;
  asio::local::stream_protocol::socket socket(context);
  error_code ec;
  socket.connect(asio::local::stream_protocol::endpoint(path), ec);
  if (ec != asio::error::connection_refused) return external_failure("unix:" + path, "somebody listens there");
  ::unlink(path.c_str());
  return {};
}

Result<void> listen_at_path(ServerState& state) {
  const ServerOptions& options = state.options;
  const std::string where = "unix:" + options.unix_path;
  if (options.unix_path.size() >= sizeof sockaddr_un{}.sun_path) {
    return bad_input(where, fmt::format("is longer than the {} bytes that a socket's path may have",
                                        sizeof sockaddr_un{}.sun_path - 1));
  }
  if (auto cleared = clear(options.unix_path); !cleared) return cleared;
  error_code ec;
  auto& acceptor = state.unix_acceptor.emplace(state.pool.at(0).impl().context);
  acceptor.open({}, ec);
  if (!ec) acceptor.bind(asio::local::stream_protocol::endpoint(options.unix_path), ec);
  if (ec) return external_failure(where, fmt::format("cannot listen: {}", ec.message()));
  // Nobody can connect before listen(): nobody does who may not.
  if (::chmod(options.unix_path.c_str(), options.unix_mode) != 0) return external_failure(where, std::strerror(errno));
  acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return external_failure(where, fmt::format("cannot listen: {}", ec.message()));
  return {};
}

/// Runs `task(loop index)` on every loop and waits for all of them.
void on_every_loop(const Shared& server, const std::function<void(std::size_t)>& task) {
  std::vector<std::future<void>> done;
  for (int i = 0; i < server->pool.size(); ++i) {
    auto promise = std::make_shared<std::promise<void>>();
    done.push_back(promise->get_future());
    server->pool.at(i).post([promise, task, i] {
      task(static_cast<std::size_t>(i));
      promise->set_value();
    });
  }
  for (auto& f : done) f.wait_for(std::chrono::seconds(5));
}

}  // namespace

HttpServer::HttpServer(std::shared_ptr<ServerState> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() { stop(Span()); }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(LoopPool& pool, const ServerOptions& options,
                                                       RequestHandler handler, ProblemBody problem_body) {
  auto state = std::make_shared<ServerState>(pool, options, std::move(handler), std::move(problem_body));
  if (auto listening = options.unix_path.empty() ? listen_at(*state) : listen_at_path(*state); !listening) {
    return std::unexpected(listening.error());
  }
  for (int i = 0; i < pool.size(); ++i) {
    const std::weak_ptr<ServerState> weak = state;
    pool.at(i).every(Span::ms(250), [weak, i] {
      const auto server = weak.lock();
      if (!server) return;
      const Instant now = steady_now();
      auto& connections = server->live[static_cast<std::size_t>(i)];
      const std::vector<std::shared_ptr<Connection>> snapshot(connections.begin(), connections.end());
      for (const auto& connection : snapshot) connection->tick(now);
    });
  }
  auto server = std::unique_ptr<HttpServer>(new HttpServer(state));
  pool.at(0).post([state] {
    state->acceptor ? accept_next(state, &ServerState::acceptor) : accept_next(state, &ServerState::unix_acceptor);
  });
  return server;
}

std::uint16_t HttpServer::port() const { return state_->port; }

std::int64_t HttpServer::connections() const { return state_->connections.load(std::memory_order_relaxed); }

void HttpServer::stop(Span grace, const std::function<void()>& last_words) {
  if (state_->closed.load()) return;
  state_->stopping.store(true);
  const Shared server = state_;
  const auto each = [server](std::size_t i, auto&& act) {
    const std::vector<std::shared_ptr<Connection>> snapshot(server->live[i].begin(), server->live[i].end());
    for (const auto& connection : snapshot) act(*connection);
  };
  on_every_loop(server, [server, each](std::size_t i) {
    if (i == 0 && server->unix_acceptor) ::unlink(server->options.unix_path.c_str());
    if (i == 0) server->unix_acceptor.reset();
    if (i == 0) server->acceptor.reset();
    each(i, [](Connection& c) { c.drain(); });
  });
  const auto wait = [this](Span most) {
    const Instant end = steady_now() + most;
    while (connections() > 0 && steady_now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  wait(grace);
  if (last_words && connections() > 0) {
    last_words();
    wait(kLastWords);
  }
  server->closed.store(true);
  on_every_loop(server, [each](std::size_t i) { each(i, [](Connection& c) { c.gone(); }); });
}

Result<HostPort> parse_host_port(std::string_view text, std::string_view where) {
  const std::size_t colon = text.rfind(':');
  HostPort out;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
    if (ec == std::errc() && end == digits.data() + digits.size() && !digits.empty()) {
      out.host = text.substr(0, colon);
      if (out.host.starts_with('[') && out.host.ends_with(']')) out.host = out.host.substr(1, out.host.size() - 2);
      if (out.host.empty()) out.host = "127.0.0.1";
      return out;
    }
  }
  return bad_input(std::string(where), fmt::format("\"{}\" is not HOST:PORT, like 127.0.0.1:8000", text));
}

}  // namespace wattle::net
