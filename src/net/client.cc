#include "net/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "net/append.h"
#include "net/clock.h"
#include "net/faults.h"
#include "net/server.h"
#include "net/socket.h"

namespace wattle::net {

namespace {
class Upstream;
}  // namespace

struct HttpClient::Impl {
  Loop& loop;
  ClientOptions options;
  bool closed = false;
  std::atomic<std::int64_t> retries{0};
  using Idle = std::vector<std::shared_ptr<Upstream>>;
  std::unordered_map<std::string, Idle> idle;  ///< by place; lists stay where they are
  std::unordered_set<std::shared_ptr<Upstream>> all;
  Impl(Loop& l, const ClientOptions& o) : loop(l), options(o) {}
};

namespace {

/// A body so short is copied behind its header: cheaper for the kernel than a second piece.
constexpr std::size_t kJoined = 2048;

CallFailure failure_of(const ParseProblem& problem) {
  switch (problem.kind) {
    case ParseProblem::Kind::Framing:
      return CallFailure::Framing;
    case ParseProblem::Kind::Size:
      return CallFailure::Header;
    case ParseProblem::Kind::Form:
      break;
  }
  return CallFailure::Malformed;
}

/// One connection to one endpoint; a Call is this connection during one request.
class Upstream final : public Watcher, public Deferred, public std::enable_shared_from_this<Upstream>, BodySink {
 public:
  /// `idle`: where it waits between requests.
  Upstream(std::shared_ptr<HttpClient::Impl> client, std::shared_ptr<const Endpoint> endpoint,
           HttpClient::Impl::Idle& idle)
      : client_(std::move(client)),
        endpoint_(std::move(endpoint)),
        idle_(idle),
        parser_(client_->options.header_bytes, *this) {}

  /// For the header of the request that begins next.
  [[nodiscard]] std::string& head() {
    head_.clear();
    return head_;
  }
  void begin(const Body& body, std::shared_ptr<ResponseHandler> handler, Instant head_by) {
    ++serial_;
    head_by_ = head_by;
    body_ = body;
    if (body.size() <= kJoined) {
      append(head_, {body.first, body.second});
      body_ = {};
    }
    handler_ = std::move(handler);
    paused_ = send_broke_ = false;
    reused_ = connected_;
    if (connected_) {
      send();
    } else {
      connect();
    }
  }
  void tick(Instant now) {
    if (now < deadline_) return;
    if (handler_) {
      fail(connected_ ? CallFailure::Timeout : CallFailure::Connect);
    } else {
      close();
    }
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    const auto self = shared_from_this();
    handler_.reset();
    sending_for_.reset();
    socket_.close();
    std::erase(idle_, self);
    client_->all.erase(self);
  }

  void pause(std::uint64_t serial) {
    if (serial != serial_) return;
    paused_ = true;
    reading_ = false;
    deadline_ = Instant::never();  // it is not the peer who is slow now
  }
  void resume(std::uint64_t serial) {
    if (serial != serial_ || !paused_ || closed_) return;
    paused_ = false;
    wait_for_body(steady_now());
    client_->loop.post([self = shared_from_this(), serial] {
      if (self->serial_ != serial || self->closed_ || self->paused_) return;
      const std::string held = std::exchange(self->in_, {});
      self->guarded_process(held);
      self->read();
    });
  }
  void cancel(std::uint64_t serial) {
    if (serial == serial_ && handler_) close();
  }
  [[nodiscard]] std::uint64_t serial() const { return serial_; }

 private:
  [[nodiscard]] Loop::Impl& loop() const { return client_->loop.impl(); }

  void wait_for_body(Instant now) { deadline_ = std::min(now + client_->options.body_timeout, whole_by_); }
  void connect() {
    deadline_ = loop().now() + client_->options.connect_timeout;
    const bool is_unix = !endpoint_->unix_path.empty();
    const auto at = is_unix ? unix_address(endpoint_->unix_path) : tcp_address(endpoint_->address, endpoint_->port);
    int error = EINVAL;
    if (at) socket_ = connect_to(*at, error);
    if (error == 0 && !socket_.watch(loop(), *this)) error = ENOMEM;
    if (error == 0) return;
    // The caller does not expect an answer before this returns.
    client_->loop.post([self = shared_from_this(), serial = serial_, error] {
      if (self->serial_ == serial && !self->closed_) self->no_connection(error);
    });
  }
  void no_connection(int error) {
    constexpr std::array kOurs{EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, EADDRNOTAVAIL};
    fail(std::ranges::find(kOurs, error) != kOurs.end() ? CallFailure::Resources : CallFailure::Connect);
  }

  void on_events(std::uint32_t events) override {
    const auto self = shared_from_this();
    socket_.note(events);
    if (!connected_) {
      constexpr std::uint32_t kDecided = EPOLLOUT | EPOLLERR | EPOLLHUP;
      if ((events & kDecided) == 0) return;
      if (const int error = socket_.connect_error(); error != 0) return no_connection(error);
      connected_ = true;
      return send();
    }
    if (sending_for_ && socket_.writable()) send_rest();
    if (reading_ && socket_.readable()) on_readable();
  }
  void on_turn_end() override {
    deferred_ = false;
    if (reading_ && socket_.readable()) on_readable();
  }

  void send() {
    whole_by_ = loop().now() + client_->options.whole_timeout;
    deadline_ = std::min({loop().now() + client_->options.head_timeout, head_by_, whole_by_});
    sent_ = 0;
    sending_for_ = handler_;
    send_rest();
    if (handler_) handler_->on_sent();
    read();
  }
  /// Header and body leave in one call; what the kernel does not take at once goes on when it has room. False: broken.
  [[nodiscard]] bool send_more() {
    for (;;) {
      std::array<iovec, 3> pieces{};
      std::size_t count = 0;
      std::size_t skip = sent_;
      for (std::string_view piece : {std::string_view(head_), body_.first, body_.second}) {
        const std::size_t gone = std::min(skip, piece.size());
        skip -= gone;
        piece.remove_prefix(gone);
        if (!piece.empty()) pieces[count++] = {const_cast<char*>(piece.data()), piece.size()};
      }
      if (count == 0) return true;
      const auto& [first, size] = pieces.front();
      const auto put = count == 1 ? socket_.write(std::string_view(static_cast<const char*>(first), size))
                                  : socket_.write(std::span(pieces).first(count));
      sent_ += put.bytes;
      if (put.result != Socket::Result::Some) return put.result == Socket::Result::None;
    }
  }
  /// A peer may have answered before it closed: to a body that is too large for it, say. What it said is still read.
  void send_rest() {
    send_broke_ = !send_more();
    if (send_broke_ || sent_ == head_.size() + body_.size()) sending_for_.reset();
    if (!send_broke_) return;
    socket_.note(EPOLLERR);  // there is something to read, if only the end
    reading_ = false;
    read();
  }

  void read() {
    if (reading_ || closed_ || paused_ || !connected_) return;
    reading_ = true;
    if (!socket_.readable() || std::exchange(deferred_, true)) return;
    loop().defer(shared_from_this());
  }
  void on_readable() {
    reading_ = false;
    if (closed_) return;
    char* const scratch = loop().scratch.get();
    const auto got = socket_.read(scratch, Loop::Impl::kScratchBytes);
    if (got.result == Socket::Result::None) return read();
    if (!handler_) return close();  // an idle connection has nothing to say but goodbye
    if (got.result == Socket::Result::End && !send_broke_) {
      parser_.feed_eof();
      if (parser_.done()) return complete();
    }
    if (got.result != Socket::Result::Some) return broke(send_broke_ ? CallFailure::Send : CallFailure::Response);
    if (parser_.header_done()) wait_for_body(loop().now());
    const std::string_view fresh(scratch, got.bytes);
    if (in_.empty()) {
      guarded_process(fresh);
    } else {
      in_.append(fresh);
      const std::string held = std::exchange(in_, {});
      guarded_process(held);
    }
    read();
  }

  /// A peer may close a connection it has kept idle at the very moment we send on it (RFC 9112, 9.3.1). It has not
  /// begun to answer, so the request goes out again, once, on a connection of its own.
  void broke(CallFailure failure) {
    if (!reused_ || parser_.started() || client_->closed) return fail(failure);
    reused_ = false;
    ++client_->retries;
    socket_.close();
    sending_for_.reset();
    connected_ = reading_ = send_broke_ = false;
    in_.clear();
    parser_.reset();
    connect();
  }

  /// A handler that throws has lost its answer: it hears of that as of any other failure.
  void guarded_process(std::string_view bytes) {
    const std::uint64_t serial = serial_;
    try {
      process(bytes);
    } catch (...) {
      count_fault("a response handler", handler_ ? handler_->log_name() : std::string_view());
      if (serial_ == serial && handler_) fail(CallFailure::Handler);
    }
  }

  void process(std::string_view bytes) {
    const auto handler = handler_;
    const std::uint64_t serial = serial_;
    const auto current = [&] { return !closed_ && serial_ == serial && handler_ != nullptr; };
    while (current() && !paused_ && !bytes.empty()) {
      const bool had_head = parser_.header_done();
      const std::size_t taken = parser_.feed(bytes);
      bytes.remove_prefix(taken);
      if (!current()) return;
      if (parser_.problem()) return fail(failure_of(parser_.problem()));
      if (!had_head && parser_.header_done()) {
        if (parser_.status() / 100 == 1) {
          reused_ = false;  // it has the request
          parser_.reset();
          continue;
        }
        const std::string_view coding = parser_.headers().get("Content-Encoding");
        if (!coding.empty() && !same_name(coding, "identity")) return fail(CallFailure::Coding);
        wait_for_body(loop().now());
        handler_->on_head(parser_.status(), parser_.headers(), parser_.content_length());
        if (!current()) return;
        if (parser_.done()) break;
        continue;
      }
      if (parser_.done() || taken == 0) break;
    }
    if (!current()) return;
    in_.assign(bytes);
    handler->on_turn();
    if (current() && parser_.done()) complete();
  }

  void on_body_piece(std::string_view bytes) override {
    if (handler_) handler_->on_body(bytes);
  }

  void complete() {
    const auto handler = std::move(handler_);
    handler_ = nullptr;
    ++serial_;
    const bool reusable = parser_.keep_alive() && in_.empty() && !sending_for_ && !send_broke_ && !client_->closed &&
                          connected_ && idle_.size() < client_->options.max_idle_per_endpoint && socket_.is_open();
    if (reusable) {
      parser_.reset();
      deadline_ = loop().now() + client_->options.idle_timeout;
      idle_.push_back(shared_from_this());
      read();  // to notice the peer closing
    } else {
      close();
    }
    handler->on_end();
  }

  void fail(CallFailure failure) {
    const auto handler = handler_;
    close();
    ++serial_;
    if (handler) handler->on_failure(failure);
  }

  std::shared_ptr<HttpClient::Impl> client_;
  std::shared_ptr<const Endpoint> endpoint_;
  HttpClient::Impl::Idle& idle_;
  Socket socket_;
  ResponseParser parser_;
  std::shared_ptr<ResponseHandler> handler_;
  std::string head_;
  Body body_;
  std::size_t sent_ = 0;                          ///< of both
  std::shared_ptr<ResponseHandler> sending_for_;  ///< it owns the body, of which the kernel has not taken all yet
  std::string in_;                                ///< what could not be taken yet: half a header, or all while paused
  Instant deadline_ = Instant::never();
  Instant head_by_ = Instant::never();  ///< of the current request, whatever head_timeout says
  Instant whole_by_ = Instant::never();
  std::uint64_t serial_ = 0;
  bool reused_ = false;  ///< for the current request, and not yet retried
  bool connected_ = false;
  bool closed_ = false;
  bool reading_ = false;   ///< what comes is wanted
  bool deferred_ = false;  ///< on_turn_end() comes
  bool paused_ = false;
  bool send_broke_ = false;  ///< the peer takes no more of the request
};

class UpstreamCall final : public Call {
 public:
  explicit UpstreamCall(std::shared_ptr<Upstream> upstream)
      : upstream_(std::move(upstream)), serial_(upstream_->serial()) {}
  void cancel() override { upstream_->cancel(serial_); }
  void pause() override { upstream_->pause(serial_); }
  void resume() override { upstream_->resume(serial_); }

 private:
  std::shared_ptr<Upstream> upstream_;
  std::uint64_t serial_;
};

}  // namespace

const char* text_of(CallFailure failure) {
  switch (failure) {
    case CallFailure::Connect:
      return "connection refused or timed out";
    case CallFailure::Resources:
      return "no descriptors or ports left here";
    case CallFailure::Send:
      return "connection broke while sending";
    case CallFailure::Response:
      return "connection closed before the response was complete";
    case CallFailure::Malformed:
      return "malformed HTTP response";
    case CallFailure::Framing:
      return "the response's Content-Length or Transfer-Encoding is not to be relied on";
    case CallFailure::Header:
      return "the response's header is too large";
    case CallFailure::Coding:
      return "the response has a Content-Encoding, although identity was asked for";
    case CallFailure::Timeout:
      return "timed out";
    case CallFailure::Handler:
      return "internal error";
  }
  return "";
}

HttpClient::HttpClient(Loop& loop, const ClientOptions& options) : impl_(std::make_shared<Impl>(loop, options)) {
  const std::weak_ptr<Impl> weak = impl_;
  loop.every(Span::ms(250), [weak] {
    const auto impl = weak.lock();
    if (!impl || impl->closed) return;
    const Instant now = steady_now();
    const std::vector<std::shared_ptr<Upstream>> snapshot(impl->all.begin(), impl->all.end());
    for (const auto& upstream : snapshot) upstream->tick(now);
  });
}

HttpClient::~HttpClient() {
  impl_->closed = true;
  const std::vector<std::shared_ptr<Upstream>> snapshot(impl_->all.begin(), impl_->all.end());
  for (const auto& upstream : snapshot) upstream->close();
}

std::shared_ptr<Call> HttpClient::send(const std::shared_ptr<const Endpoint>& endpoint, std::string_view method,
                                       std::string_view target, std::string_view extra_headers, const Body& body,
                                       std::shared_ptr<ResponseHandler> handler, Instant head_by) {
  std::shared_ptr<Upstream> upstream;
  auto& idle = impl_->idle[endpoint->place];
  if (!idle.empty()) {
    upstream = std::move(idle.back());  // the most recently used one is the least likely to be closed under us
    idle.pop_back();
  } else {
    upstream = std::make_shared<Upstream>(impl_, endpoint, idle);
    impl_->all.insert(upstream);
  }
  std::string& head = upstream->head();
  head.reserve(192 + extra_headers.size());
  const fmt::format_int length(body.size());
  append(head, {method, " ", endpoint->prefix, target, " HTTP/1.1\r\nHost: ", endpoint->host_port,
                "\r\nAccept-Encoding: identity"});
  if (body.size() > 0 || method == "POST") append(head, {"\r\nContent-Length: ", {length.data(), length.size()}});
  append(head, {"\r\n", extra_headers, "\r\n"});
  upstream->begin(body, std::move(handler), head_by);
  return std::make_shared<UpstreamCall>(std::move(upstream));
}

std::int64_t HttpClient::retries() const { return impl_->retries; }

}  // namespace wattle::net
