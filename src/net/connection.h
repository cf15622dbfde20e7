#pragma once
// Private to net/: one client connection of an HTTP server.
#include <atomic>
#include <optional>
#include <unordered_set>
#include <vector>

#include "net/exchange.h"
#include "net/socket.h"
#include "net/tls.h"

namespace wattle::net {

class Connection;

/// A sum to which one loop's thread adds and which all threads may read.
struct alignas(64) LoopBytes {
  std::atomic<std::int64_t> sum{0};
};

/// What the connections of one server share. The sets are touched on their own loop's thread only.
struct ServerState {
  LoopPool& pool;
  ServerOptions options;
  RequestHandler handler;
  ProblemBody problem_body;
  std::unique_ptr<Watcher> acceptor;  ///< gone once stopped, before the loop it belongs to
  std::uint16_t port = 0;
  std::vector<std::unordered_set<std::shared_ptr<Connection>>> live;  ///< by loop
  std::atomic<std::int64_t> connections{0};
  std::vector<LoopBytes> body_bytes;  ///< by loop, of requests that have not been answered
  std::atomic<bool> stopping{false};
  std::atomic<bool> closed{false};
  int next_loop = 0;

  ServerState(LoopPool& p, const ServerOptions& o, RequestHandler h, ProblemBody b)
      : pool(p),
        options(o),
        handler(std::move(h)),
        problem_body(std::move(b)),
        live(static_cast<std::size_t>(p.size())),
        body_bytes(static_cast<std::size_t>(p.size())) {}
};

class Connection final : public Watcher, public Deferred, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerState> server, int loop_index, Socket socket);

  void start();
  void tick(Instant now);  ///< checks the deadline
  void gone();             ///< the client has left or is cut off; notifies the handler
  void close();            ///< at once
  void drain();            ///< close as soon as no response is running

 private:
  friend class ConnectionExchange;
  enum class Phase : std::uint8_t { Idle, Header, Body, Responding, Lingering, Closed };

  void on_events(std::uint32_t events) override;
  void on_turn_end() override;
  [[nodiscard]] Loop::Impl& loop() const { return server_->pool.at(loop_index_).impl(); }
  void read();
  void on_readable();
  [[nodiscard]] bool unseal(std::string_view& bytes);
  [[nodiscard]] bool hold_body();
  void let_body_go();
  void refuse_http2();
  [[nodiscard]] std::size_t unsent() const { return out_.size() - out_sent_ + sealed_.size() - sealed_sent_; }
  void process(std::string_view bytes);
  void process_held();
  void take_request();
  void refuse(const ParseProblem& problem);
  void enter(Phase phase);

  void send_head(int status, std::string_view content_type, std::string_view extra,
                 std::optional<std::uint64_t> length);
  void send_body(std::string_view bytes);
  void end_response();
  void defer();
  void schedule_flush();
  void flush();
  void all_sent();

  std::shared_ptr<ServerState> server_;
  int loop_index_;
  Socket socket_;
  std::optional<Peer> peer_;  ///< of a Unix socket
  RequestParser parser_;
  std::string in_;  ///< input not consumed yet: half a header, pipelined requests
  std::string out_;
  std::size_t out_sent_ = 0;
  std::unique_ptr<TlsSession> tls_;  ///< null: plain text
  std::string sealed_;               ///< the part of out_ that is being sent, encrypted, if the connection uses TLS
  std::size_t sealed_sent_ = 0;
  std::int64_t body_held_ = 0;        ///< of ServerState::body_bytes
  std::string extra_;                 ///< header lines of the response to come
  std::shared_ptr<const void> kept_;  ///< the handler's, for the next request
  Phase phase_ = Phase::Idle;
  Instant deadline_ = Instant::never();
  Instant write_deadline_ = Instant::never();
  std::uint64_t serial_ = 0;  ///< of the request being answered
  bool reading_ = false;      ///< input is accepted
  bool deferred_ = false;     ///< on_turn_end() is scheduled
  bool flush_scheduled_ = false;
  bool overrun_ = false;  ///< the client reads its responses too slowly
  bool waiting_writable_ = false;
  bool chunked_ = false;
  bool bodiless_ = false;  ///< HEAD, 1xx, 204, 304: headers only
  bool head_sent_ = false;
  bool keep_alive_ = true;
  bool close_when_sent_ = false;
  bool continue_sent_ = false;
  bool in_handler_ = false;
  bool tls_closed_ = false;
  std::function<void()> on_gone_;
  std::function<void()> on_drained_;
};

}  // namespace wattle::net
