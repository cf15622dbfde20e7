#include "net/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>

#include "net/clock.h"
#include "net/connection.h"
#include "net/socket.h"

namespace wattle::net {

namespace {
/// For answers cut short to leave: a client that does not read has had its time.
constexpr Span kLastWords = Span::ms(250);

/// After an accept that failed: out of descriptors, say.
constexpr Span kBreath = Span::ms(20);
constexpr int kAcceptsATurn = 64;

using Shared = std::shared_ptr<ServerState>;

/// Hands new connections to the loops in turn. On loop 0.
class Acceptor final : public Watcher {
 public:
  Acceptor(ServerState& server, int descriptor) : server_(server), descriptor_(descriptor) {}
  ~Acceptor() override {
    if (listening_) loop().impl().forget(*this);
    ::close(descriptor_);
  }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  void listen(const Shared& server) {
    shared_ = server;
    listening_ = true;
    if (!loop().impl().add(descriptor_, *this)) again(kBreath);
  }
  void on_events(std::uint32_t) override {
    for (int i = 0; i < kAcceptsATurn; ++i) {
      const int accepted = ::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted >= 0) {
        take(Socket(accepted));
        continue;
      }
      if (errno == EAGAIN) return;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return again(kBreath);
    }
    again(Span());
  }

 private:
  [[nodiscard]] Loop& loop() { return server_.pool.at(0); }
  void again(Span delay) {
    loop().after(delay, [weak = shared_, this] {
      const Shared server = weak.lock();
      if (server && server->acceptor.get() == this) on_events(EPOLLIN);
    });
  }
  void take(Socket socket) {
    const int index = server_.next_loop;
    server_.next_loop = (index + 1) % server_.pool.size();
    if (server_.connections.load(std::memory_order_relaxed) >= server_.options.max_connections) return;
    const Shared server = shared_.lock();
    if (!server) return;
    // Counted here, not on its own loop: of a burst, no more are let in than there is room for.
    auto connection = std::make_shared<Connection>(server, index, std::move(socket));
    server_.pool.at(index).post([connection] { connection->start(); });
  }

  ServerState& server_;
  std::weak_ptr<ServerState> shared_;
  int descriptor_;
  bool listening_ = false;
};

Result<void> listen_on(ServerState& state, const SocketAddress& address, const std::string& where) {
  const auto no = [&where] {
    return external_failure(where, fmt::format("cannot listen: {}; choose a free port", std::strerror(errno)));
  };
  const int socket = ::socket(address.at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return no();
  state.acceptor = std::make_unique<Acceptor>(state, socket);  // which closes it
  const int on = 1;
  const auto* const at = reinterpret_cast<const sockaddr*>(&address.at);
  const bool is_unix = address.at.ss_family == AF_UNIX;
  if (!is_unix && ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return no();
  if (::bind(socket, at, address.size) != 0) return no();
  // Nobody can connect before listen(): nobody does who may not.
  if (is_unix && ::chmod(state.options.unix_path.c_str(), state.options.unix_mode) != 0) return no();
  if (::listen(socket, SOMAXCONN) != 0) return no();
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (is_unix || ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return {};
  state.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                                 : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return {};
}

Result<void> listen_at(ServerState& state) {
  const ServerOptions& options = state.options;
  const std::string where = fmt::format("{}:{}", options.host, options.port);
  const auto address = tcp_address(options.host == "localhost" ? "127.0.0.1" : options.host, options.port);
  if (!address) return bad_input(where, "not an IP address to listen on; say 127.0.0.1 or 0.0.0.0");
  return listen_on(state, *address, where);
}

/// A socket's file that nobody listens at any more is left by one that was killed; nothing else is ever removed.
Result<void> clear(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return {};
  if (!S_ISSOCK(there.st_mode)) return bad_input("unix:" + path, "is there already, and is no socket");
  int error = 0;
  const Socket socket = connect_to(unix_address(path), error);
  if (error != ECONNREFUSED) return external_failure("unix:" + path, "somebody listens there");
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
  return listen_on(state, unix_address(options.unix_path), where);
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
  pool.at(0).post([state] { static_cast<Acceptor&>(*state->acceptor).listen(state); });
  return server;
}

std::uint16_t HttpServer::port() const { return state_->port; }

std::int64_t HttpServer::connections() const { return state_->connections.load(std::memory_order_relaxed); }

void HttpServer::stop(Span grace, const std::function<void()>& last_words, const std::function<bool()>& at_once) {
  if (state_->closed.load()) return;
  state_->stopping.store(true);
  const Shared server = state_;
  const auto each = [server](std::size_t i, auto&& act) {
    const std::vector<std::shared_ptr<Connection>> snapshot(server->live[i].begin(), server->live[i].end());
    for (const auto& connection : snapshot) act(*connection);
  };
  on_every_loop(server, [server, each](std::size_t i) {
    if (i == 0 && !server->options.unix_path.empty()) ::unlink(server->options.unix_path.c_str());
    if (i == 0) server->acceptor.reset();
    each(i, [](Connection& c) { c.drain(); });
  });
  const auto wait = [this](Span most, const std::function<bool()>& no_longer) {
    const Instant end = steady_now() + most;
    while (connections() > 0 && steady_now() < end && !(no_longer && no_longer())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  };
  wait(grace, at_once);
  if (last_words && connections() > 0) {
    last_words();
    wait(kLastWords, {});
  }
  server->closed.store(true);
  on_every_loop(server, [each](std::size_t i) { each(i, [](Connection& c) { c.gone(); }); });
}

std::string HostPort::text() const {
  return fmt::format("{}:{}", host.find(':') == std::string::npos ? host : "[" + host + "]", port);
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
      if (out.host.find('/') == std::string::npos) return out;  // a URL is none
    }
  }
  return bad_input(std::string(where), fmt::format("\"{}\" is not HOST:PORT, like 127.0.0.1:8000", text));
}

}  // namespace wattle::net
