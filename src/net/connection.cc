#include "net/connection.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

#include "net/append.h"
#include "net/clock.h"
#include "net/faults.h"

namespace wattle::net {

namespace {
constexpr std::size_t kHeldBytes = 16 * 1024;  ///< beyond a header, of what a client pipelines
constexpr std::size_t kKeepCapacity = 1 << 20;
constexpr Span kLinger = Span::s(2);
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n";
}  // namespace

/// A handler's handle on one request; worthless once that request has been answered.
class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, std::uint64_t serial)
      : connection_(std::move(connection)), serial_(serial) {}
  /// A handler that forgets a request must not leave its client waiting for ever.
  ~ConnectionExchange() override {
    auto& own = loop();
    if (own.in_this_thread()) {
      if (current()) connection_->close();
    } else {
      own.post([c = connection_, serial = serial_] {
        if (c->serial_ == serial && c->phase_ == Connection::Phase::Responding) c->close();
      });
    }
  }

  std::string_view method() const override { return connection_->parser_.method(); }
  std::string_view target() const override { return connection_->parser_.target(); }
  const HeaderFields& headers() const override { return connection_->parser_.headers(); }
  const std::string& body() const override { return connection_->parser_.body(); }
  const Peer* peer() const override { return connection_->peer_ ? &*connection_->peer_ : nullptr; }
  std::shared_ptr<const void>& kept() override { return connection_->kept_; }
  Loop& loop() final { return connection_->server_->pool.at(connection_->loop_index_); }

  void add_headers(std::string_view lines) override {
    if (current()) connection_->extra_.append(lines);
  }
  void respond(int status, std::string_view content_type, std::string_view body, std::string_view extra) override {
    if (!current() || connection_->head_sent_) return;
    connection_->send_head(status, content_type, extra, body.size());
    connection_->send_body(body);
    connection_->end_response();
  }
  void begin(int status, std::string_view content_type, std::string_view extra,
             std::optional<std::uint64_t> length) override {
    if (current() && !connection_->head_sent_) connection_->send_head(status, content_type, extra, length);
  }
  void write(std::string_view bytes) override {
    if (current()) connection_->send_body(bytes);
  }
  void finish() override {
    if (current()) connection_->end_response();
  }
  void drop() override {
    if (!current()) return;
    connection_->on_gone_ = nullptr;
    connection_->close_when_sent_ = true;
    connection_->keep_alive_ = false;
    ++connection_->serial_;
    connection_->schedule_flush();
  }
  /// What is left to do for a request whose handler has thrown.
  void fail() {
    if (!current()) return;
    if (connection_->head_sent_) return drop();
    const auto& problem_body = connection_->server_->problem_body;
    constexpr std::string_view kWhat = "internal error; the gateway's log says more";
    const std::string text = problem_body ? problem_body(500, kWhat) : std::string(kWhat);
    respond(500, problem_body ? "application/json" : "text/plain", text, {});
  }
  void on_gone(std::function<void()> handler) override {
    if (current()) connection_->on_gone_ = std::move(handler);
  }
  std::size_t unsent_bytes() const override { return connection_->unsent(); }
  void on_drained(std::function<void()> handler) override {
    if (current()) connection_->on_drained_ = std::move(handler);
  }

 private:
  [[nodiscard]] bool current() const {
    return connection_->serial_ == serial_ && connection_->phase_ == Connection::Phase::Responding;
  }
  std::shared_ptr<Connection> connection_;
  std::uint64_t serial_;
};

Connection::Connection(std::shared_ptr<ServerState> server, int loop_index, Socket socket)
    : server_(std::move(server)),
      loop_index_(loop_index),
      socket_(std::move(socket)),
      peer_(server_->options.unix_path.empty() ? std::nullopt : peer_of(socket_.descriptor())),
      parser_(server_->options.limits) {
  server_->connections.fetch_add(1, std::memory_order_relaxed);
  if (server_->options.tls) tls_ = std::make_unique<TlsSession>(server_->options.tls);
}

void Connection::start() {
  if (server_->closed.load()) return close();
  server_->live[static_cast<std::size_t>(loop_index_)].insert(shared_from_this());
  socket_.no_delay();
  enter(Phase::Idle);
  if (tls_) deadline_ = loop().now() + server_->options.header_timeout;  // to shake hands
  if (!socket_.watch(loop(), *this)) return close();
  read();
}

void Connection::enter(Phase phase) {
  phase_ = phase;
  const auto& o = server_->options;
  switch (phase) {
    case Phase::Idle:
      deadline_ = loop().now() + o.idle_timeout;
      break;
    case Phase::Header:
      deadline_ = loop().now() + o.header_timeout;
      break;
    case Phase::Body:
      deadline_ = loop().now() + o.body_timeout;
      break;
    case Phase::Lingering:
      deadline_ = loop().now() + kLinger;
      break;
    case Phase::Responding:
    case Phase::Closed:
      deadline_ = Instant::never();
      break;
  }
}

void Connection::tick(Instant now) {
  if (now >= write_deadline_) return gone();
  if (now < deadline_) return;
  if ((phase_ == Phase::Header || phase_ == Phase::Body) && (!tls_ || tls_->established())) {
    refuse({408, "the request did not arrive in time"});
  } else {
    close();
  }
}

void Connection::drain() {
  if (phase_ != Phase::Responding) {
    close();
  } else {
    keep_alive_ = false;
  }
}

void Connection::close() {
  if (phase_ == Phase::Closed) return;
  const auto self = shared_from_this();  // the set below may hold the last reference
  enter(Phase::Closed);
  server_->connections.fetch_sub(1, std::memory_order_relaxed);
  let_body_go();
  write_deadline_ = Instant::never();
  on_gone_ = nullptr;
  on_drained_ = nullptr;
  socket_.close();
  server_->live[static_cast<std::size_t>(loop_index_)].erase(self);
}

/// The client left or broke the connection.
void Connection::gone() {
  const auto handler = std::move(on_gone_);
  const bool answering = phase_ == Phase::Responding;
  close();
  if (answering && handler) handler();
}

void Connection::on_events(std::uint32_t events) {
  const auto self = shared_from_this();
  socket_.note(events);
  if (waiting_writable_ && socket_.writable()) {
    waiting_writable_ = false;
    write_deadline_ = Instant::never();
    flush();
  }
  if (reading_ && socket_.readable()) on_readable();
}

void Connection::on_turn_end() {
  deferred_ = false;
  if (std::exchange(overrun_, false)) return gone();
  if (std::exchange(flush_scheduled_, false)) flush();
  if (reading_ && socket_.readable()) on_readable();
}

void Connection::defer() {
  if (std::exchange(deferred_, true)) return;
  loop().defer(shared_from_this());
}

void Connection::read() {
  if (reading_ || phase_ == Phase::Closed) return;
  // While a response runs, reading goes on only to notice the client leaving; what it pipelines is kept up to a bound.
  if (in_.size() >= std::size_t{server_->options.limits.header_bytes} + kHeldBytes) return;
  reading_ = true;
  if (socket_.readable()) defer();
}

void Connection::on_readable() {
  reading_ = false;
  char* const scratch = loop().scratch.get();
  const auto got = socket_.read(scratch, Loop::Impl::kScratchBytes);
  if (got.result == Socket::Result::None) return read();
  if (got.result != Socket::Result::Some) return gone();
  std::string_view fresh(scratch, got.bytes);
  if (tls_ && !unseal(fresh)) return;
  if (fresh.empty()) return read();
  if (phase_ == Phase::Responding) {
    in_.append(fresh);
  } else if (phase_ != Phase::Lingering) {  // then it is discarded
    if (in_.empty()) {
      process(fresh);
    } else {
      in_.append(fresh);
      process_held();
    }
  }
  read();
}

/// What TLS says instead of these bytes, maybe nothing. False: the connection is over.
bool Connection::unseal(std::string_view& bytes) {
  std::string& plain = loop().plain;
  plain.clear();
  const bool sound = tls_->open(bytes, plain, sealed_);
  if (!sealed_.empty()) flush();
  if (phase_ == Phase::Closed) return false;
  if (!sound) {
    gone();
    return false;
  }
  bytes = plain;
  return true;
}

/// False: there is no room for what has come of this request's body.
bool Connection::hold_body() {
  const auto size = static_cast<std::int64_t>(parser_.body().size());
  const std::int64_t more = size - std::exchange(body_held_, size);
  auto& own = server_->body_bytes[static_cast<std::size_t>(loop_index_)].sum;
  const std::int64_t sum = own.load(std::memory_order_relaxed) + more;
  if (size <= ServerOptions::kSmallBody) {
    own.store(sum, std::memory_order_relaxed);
    return true;
  }
  // In order with the loads of other loops: of two that are too many together one sees the other, or both do.
  own.store(sum);
  std::int64_t all = 0;
  for (const LoopBytes& loop : server_->body_bytes) all += loop.sum.load();
  return all <= server_->options.total_body_bytes;
}

void Connection::let_body_go() {
  const std::int64_t held = std::exchange(body_held_, 0);
  auto& own = server_->body_bytes[static_cast<std::size_t>(loop_index_)].sum;
  own.store(own.load(std::memory_order_relaxed) - held, std::memory_order_relaxed);
}

/// Said in its own words: an empty SETTINGS frame and GOAWAY with HTTP_1_1_REQUIRED (RFC 9113, sections 3.4, 6.8 and
/// 7).
void Connection::refuse_http2() {
  constexpr std::string_view kSettings("\0\0\0\x04\0\0\0\0\0", 9);
  constexpr std::string_view kWhy = "HTTP/2 is not spoken here; use HTTP/1.1";
  constexpr std::string_view kRest("\0\0\0\0\0\0\0\0\0\0\0\x0d", 12);  // stream 0; last stream 0; the error
  static_assert(kWhy.size() + 8 < 256);
  out_.append(kSettings);
  out_.append(2, '\0').append(1, static_cast<char>(kWhy.size() + 8)).append(1, '\x07').append(1, '\0');
  out_.append(kRest).append(kWhy);
  enter(Phase::Responding);
  ++serial_;
  keep_alive_ = false;
  close_when_sent_ = true;
  schedule_flush();
}

void Connection::process_held() {
  const std::string held = std::exchange(in_, {});
  process(held);
}

/// `bytes` are the input there is; what cannot be taken now is held.
void Connection::process(std::string_view bytes) {
  while (!bytes.empty() && (phase_ == Phase::Idle || phase_ == Phase::Header || phase_ == Phase::Body)) {
    // Some clients end a body with an empty line that is none of its (RFC 9112, 2.2).
    while (phase_ == Phase::Idle && bytes.starts_with("\r\n")) bytes.remove_prefix(2);
    if (phase_ == Phase::Idle && (bytes.empty() || bytes == "\r")) break;
    if (phase_ == Phase::Idle) enter(Phase::Header);
    if (phase_ == Phase::Header && bytes.starts_with(kHttp2Preface)) return refuse_http2();
    if (phase_ == Phase::Header && kHttp2Preface.starts_with(bytes)) break;  // its beginning, maybe
    const std::size_t taken = parser_.feed(bytes);
    bytes.remove_prefix(taken);
    if (parser_.problem()) return refuse(parser_.problem());
    if (!hold_body()) return refuse({503, "too many large requests at a time; try again"});
    if (parser_.done()) {
      take_request();
      continue;
    }
    if (parser_.header_done() && phase_ == Phase::Header) {
      enter(Phase::Body);
      if (!continue_sent_ && parser_.http11() && same_name(parser_.headers().get("Expect"), "100-continue")) {
        continue_sent_ = true;
        out_.append("HTTP/1.1 100 Continue\r\n\r\n");
        schedule_flush();
      }
    }
    if (taken == 0) break;
  }
  if (phase_ != Phase::Closed && phase_ != Phase::Lingering) in_.assign(bytes);
}

void Connection::take_request() {
  enter(Phase::Responding);
  ++serial_;
  head_sent_ = false;
  keep_alive_ = parser_.keep_alive() && !server_->stopping.load(std::memory_order_relaxed);
  in_handler_ = true;
  const auto exchange = std::make_shared<ConnectionExchange>(shared_from_this(), serial_);
  try {
    server_->handler(exchange);
  } catch (...) {
    count_fault("a request handler", parser_.headers().get("X-Request-Id"));
    exchange->fail();
  }
  in_handler_ = false;
}

void Connection::refuse(const ParseProblem& problem) {
  enter(Phase::Responding);
  ++serial_;
  head_sent_ = false;
  keep_alive_ = false;
  std::string what = problem.what;
  if (problem.status == 413) what += fmt::format(": {} bytes", server_->options.limits.body_bytes);
  const std::string body = server_->problem_body ? server_->problem_body(problem.status, what) : what;
  send_head(problem.status, server_->problem_body ? "application/json" : "text/plain",
            problem.status == 503 ? "Retry-After: 1\r\n" : "", body.size());
  send_body(body);
  let_body_go();
  if (tls_ && tls_->seal(out_, sealed_)) {
    out_.clear();
    tls_->close(sealed_);
  }
  flush();
  if (phase_ == Phase::Closed) return;
  // Closing now, with unread input in the kernel, would reset the connection and may destroy the answer on its way.
  socket_.shut_sending();
  in_.clear();
  enter(Phase::Lingering);
  read();
}

void Connection::send_head(int status, std::string_view content_type, std::string_view extra,
                           std::optional<std::uint64_t> length) {
  head_sent_ = true;
  const bool never_has_body = status / 100 == 1 || status == 204 || status == 304;  // RFC 9112, 6.3
  bodiless_ = parser_.method() == "HEAD" || never_has_body;
  chunked_ = !length && parser_.http11() && !never_has_body;
  // HTTP/1.0: the end of the body is the end of the connection.
  if (!length && !chunked_ && !never_has_body) keep_alive_ = false;
  if (status == 200) {
    out_.append("HTTP/1.1 200 OK\r\n");
  } else {
    const fmt::format_int code(status);
    append(out_, {"HTTP/1.1 ", {code.data(), code.size()}, " ", status_text(status), "\r\n"});
  }
  if (!content_type.empty()) append(out_, {"Content-Type: ", content_type, "\r\n"});
  if (chunked_) {
    append(out_, {"Transfer-Encoding: chunked\r\n"});
  } else if (length && !never_has_body) {
    const fmt::format_int digits(*length);
    append(out_, {"Content-Length: ", {digits.data(), digits.size()}, "\r\n"});
  }
  if (!keep_alive_) {
    append(out_, {"Connection: close\r\n"});
  } else if (!parser_.http11()) {
    append(out_, {"Connection: keep-alive\r\n"});
  }
  append(out_, {extra, extra_, "\r\n"});
  extra_.clear();
  schedule_flush();
}

void Connection::send_body(std::string_view bytes) {
  if (bytes.empty() || bodiless_ || phase_ == Phase::Closed) return;
  if (chunked_) {
    std::array<char, 2 * sizeof(std::size_t)> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes.size(), 16).ptr;
    out_.append(digits.data(), end).append("\r\n");
    out_.append(bytes);
    out_.append("\r\n");
  } else {
    out_.append(bytes);
  }
  if (unsent() > server_->options.max_unsent_bytes && head_sent_) {
    // Try once more before giving up on a client that does not read.
    flush();
    if (phase_ != Phase::Closed && unsent() > server_->options.max_unsent_bytes && waiting_writable_) {
      overrun_ = true;
      defer();
    }
    return;
  }
  schedule_flush();
}

void Connection::end_response() {
  if (chunked_ && !bodiless_) out_.append("0\r\n\r\n");
  ++serial_;
  on_gone_ = nullptr;
  on_drained_ = nullptr;
  continue_sent_ = false;
  if (!keep_alive_ || server_->stopping.load(std::memory_order_relaxed)) close_when_sent_ = true;
  schedule_flush();
  if (close_when_sent_) return;
  parser_.reset();
  let_body_go();
  enter(Phase::Idle);
  if (!in_.empty() && !in_handler_) {
    server_->pool.at(loop_index_).post([self = shared_from_this()] {
      self->process_held();
      self->read();
    });
  } else if (!in_handler_) {
    read();
  }
}

void Connection::schedule_flush() {
  if (flush_scheduled_ || waiting_writable_ || phase_ == Phase::Closed) return;
  flush_scheduled_ = true;
  defer();
}

void Connection::flush() {
  if (phase_ == Phase::Closed || waiting_writable_) return;
  if (tls_ && !out_.empty()) {
    if (!tls_->seal(out_, sealed_)) return gone();
    out_.clear();
  }
  std::string& out = tls_ ? sealed_ : out_;
  std::size_t& sent = tls_ ? sealed_sent_ : out_sent_;
  while (sent < out.size()) {
    const auto put = socket_.write(std::string_view(out).substr(sent));
    sent += put.bytes;
    if (put.result == Socket::Result::Broken) return gone();
    if (put.result == Socket::Result::None) {
      waiting_writable_ = true;
      write_deadline_ = steady_now() + server_->options.write_timeout;
      if (sent > kKeepCapacity) {
        out.erase(0, sent);
        sent = 0;
      }
      return;
    }
  }
  all_sent();
}

void Connection::all_sent() {
  out_.clear();
  out_sent_ = 0;
  if (out_.capacity() > kKeepCapacity) out_ = std::string();
  sealed_.clear();
  sealed_sent_ = 0;
  if (sealed_.capacity() > kKeepCapacity) sealed_ = std::string();
  if (close_when_sent_ && tls_ && !std::exchange(tls_closed_, true)) {
    tls_->close(sealed_);
    return flush();
  }
  if (close_when_sent_) {
    // Graceful: our FIN first, then wait for theirs, so that an unread pipelined byte cannot reset the answer away.
    socket_.shut_sending();
    in_.clear();
    close_when_sent_ = false;
    enter(Phase::Lingering);
    return read();
  }
  if (on_drained_) {
    const auto handler = std::move(on_drained_);
    on_drained_ = nullptr;
    handler();
  }
}

}  // namespace wattle::net
