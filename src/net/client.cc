#include "net/client.h"

#include <fmt/format.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "net/clock.h"
#include "net/faults.h"
#include "net/loop_impl.h"
#include "net/server.h"

namespace wattle::net {

namespace {
constexpr std::size_t kReadBytes = 32 * 1024;

class Upstream;
}  // namespace

struct HttpClient::Impl {
  Loop& loop;
  ClientOptions options;
  bool closed = false;
  std::unordered_map<std::string, std::vector<std::shared_ptr<Upstream>>> idle;
  std::unordered_set<std::shared_ptr<Upstream>> all;
  Impl(Loop& l, const ClientOptions& o) : loop(l), options(o) {}
};

namespace {

/// One connection to one endpoint; a Call is this connection during one request.
class Upstream final : public std::enable_shared_from_this<Upstream>, BodySink {
 public:
  Upstream(std::shared_ptr<HttpClient::Impl> client, std::shared_ptr<const Endpoint> endpoint)
      : client_(std::move(client)),
        endpoint_(std::move(endpoint)),
        socket_(client_->loop.impl().context),
        parser_(client_->options.header_bytes, *this) {}

  void begin(std::string head, std::string_view body, std::shared_ptr<ResponseHandler> handler) {
    ++serial_;
    head_ = std::move(head);
    body_ = body;
    handler_ = std::move(handler);
    paused_ = false;
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
    error_code ignored;
    socket_.close(ignored);
    if (const auto found = client_->idle.find(endpoint_->url); found != client_->idle.end()) {
      std::erase(found->second, self);
    }
    client_->all.erase(self);
  }

  void pause(std::uint64_t serial) {
    if (serial != serial_) return;
    paused_ = true;
    deadline_ = Instant::never();  // it is not the peer who is slow now
  }
  void resume(std::uint64_t serial) {
    if (serial != serial_ || !paused_ || closed_) return;
    paused_ = false;
    deadline_ = steady_now() + client_->options.body_timeout;
    asio::post(socket_.get_executor(), [self = shared_from_this(), serial] {
      if (self->serial_ != serial || self->closed_ || self->paused_) return;
      self->guarded_process();
      self->read();
    });
  }
  void cancel(std::uint64_t serial) {
    if (serial == serial_ && handler_) close();
  }
  [[nodiscard]] std::uint64_t serial() const { return serial_; }

 private:
  void connect() {
    deadline_ = steady_now() + client_->options.connect_timeout;
    const Tcp::endpoint peer(asio::ip::make_address(endpoint_->address), endpoint_->port);
    socket_.async_connect(peer, [self = shared_from_this()](error_code ec) {
      if (self->closed_) return;
      if (ec) return self->fail(CallFailure::Connect);
      self->connected_ = true;
      error_code ignored;
      self->socket_.set_option(Tcp::no_delay(true), ignored);
      self->socket_.non_blocking(true, ignored);
      self->send();
    });
  }

  void send() {
    deadline_ = steady_now() + client_->options.head_timeout;
    // Header and body leave in one writev; what the kernel does not take at once goes on asynchronously.
    const std::array<asio::const_buffer, 2> both{asio::buffer(head_), asio::buffer(body_.data(), body_.size())};
    error_code ec;
    const std::size_t sent = socket_.write_some(both, ec);
    if (ec && ec != asio::error::would_block && ec != asio::error::try_again) {
      const std::uint64_t serial = serial_;
      asio::post(socket_.get_executor(), [self = shared_from_this(), serial] {
        if (self->serial_ == serial && self->handler_) self->fail(CallFailure::Send);
      });
      return;
    }
    if (sent < head_.size() + body_.size()) send_rest(sent);
    read();
  }

  void send_rest(std::size_t sent) {
    std::vector<asio::const_buffer> rest;
    if (sent < head_.size()) rest.push_back(asio::buffer(head_.data() + sent, head_.size() - sent));
    const std::size_t into_body = sent > head_.size() ? sent - head_.size() : 0;
    if (into_body < body_.size()) rest.push_back(asio::buffer(body_.data() + into_body, body_.size() - into_body));
    sending_ = true;
    // The handler owns the body; hold it until the kernel has it all.
    asio::async_write(socket_, rest, [self = shared_from_this(), held = handler_](error_code ec, std::size_t) {
      self->sending_ = false;
      if (ec && self->handler_ && !self->closed_) self->fail(CallFailure::Send);
    });
  }

  void read() {
    if (reading_ || closed_ || paused_) return;
    if (in_.size() < in_size_ + kReadBytes / 2) in_.resize(in_size_ + kReadBytes);
    reading_ = true;
    socket_.async_read_some(asio::buffer(in_.data() + in_size_, in_.size() - in_size_),
                            [self = shared_from_this()](error_code ec, std::size_t n) { self->on_read(ec, n); });
  }

  void on_read(error_code ec, std::size_t n) {
    reading_ = false;
    if (closed_) return;
    if (!handler_) return close();  // an idle connection has nothing to say but goodbye
    if (ec == asio::error::eof) {
      parser_.feed_eof();
      if (parser_.done()) return complete();
      return fail(CallFailure::Response);
    }
    if (ec) return fail(CallFailure::Response);
    deadline_ = steady_now() + client_->options.body_timeout;
    in_size_ += n;
    guarded_process();
    read();
  }

  /// A handler that throws has lost its answer: it hears of that as of any other failure.
  void guarded_process() {
    const std::uint64_t serial = serial_;
    try {
      process();
    } catch (...) {
      count_fault("a response handler");
      if (serial_ == serial && handler_) fail(CallFailure::Handler);
    }
  }

  void process() {
    const auto self = shared_from_this();
    const auto handler = handler_;
    const std::uint64_t serial = serial_;
    const auto current = [&] { return !closed_ && serial_ == serial && handler_ != nullptr; };
    std::size_t used = 0;
    while (current() && !paused_ && used < in_size_) {
      const bool had_head = parser_.header_done();
      const std::size_t taken = parser_.feed(std::string_view(in_.data() + used, in_size_ - used));
      used += taken;
      if (!current()) return;
      if (parser_.problem()) return fail(CallFailure::Response);
      if (!had_head && parser_.header_done()) {
        if (parser_.status() / 100 == 1) {
          parser_.reset();
          continue;
        }
        handler_->on_head(parser_.status(), parser_.headers(), parser_.content_length());
        if (!current()) return;
        if (parser_.done()) break;
        continue;
      }
      if (parser_.done() || taken == 0) break;
    }
    if (!current()) return;
    in_size_ -= used;
    if (in_size_ > 0 && used > 0) std::memmove(in_.data(), in_.data() + used, in_size_);
    handler->on_turn();
    if (current() && parser_.done()) complete();
  }

  void on_body_piece(std::string_view bytes) override {
    if (handler_) handler_->on_body(bytes);
  }

  void complete() {
    const auto self = shared_from_this();
    const auto handler = std::move(handler_);
    handler_ = nullptr;
    ++serial_;
    auto& idle = client_->idle[endpoint_->url];
    const bool reusable = parser_.keep_alive() && in_size_ == 0 && !sending_ && !client_->closed && connected_ &&
                          idle.size() < client_->options.max_idle_per_endpoint && socket_.is_open();
    if (reusable) {
      parser_.reset();
      deadline_ = steady_now() + client_->options.idle_timeout;
      idle.push_back(self);
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
  Tcp::socket socket_;
  ResponseParser parser_;
  std::shared_ptr<ResponseHandler> handler_;
  std::string head_;
  std::string_view body_;
  std::string in_;
  std::size_t in_size_ = 0;
  Instant deadline_ = Instant::never();
  std::uint64_t serial_ = 0;
  bool connected_ = false;
  bool closed_ = false;
  bool reading_ = false;
  bool sending_ = false;
  bool paused_ = false;
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
    case CallFailure::Send:
      return "connection broke while sending";
    case CallFailure::Response:
      return "connection closed before the response was complete";
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
                                       std::string_view target, std::string_view extra_headers, std::string_view body,
                                       std::shared_ptr<ResponseHandler> handler) {
  std::string head;
  head.reserve(160 + extra_headers.size());
  fmt::format_to(std::back_inserter(head), "{} {}{} HTTP/1.1\r\nHost: {}\r\n", method, endpoint->prefix, target,
                 endpoint->host_port);
  if (!body.empty() || method == "POST") {
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", body.size());
  }
  head.append(extra_headers);
  head.append("\r\n");

  std::shared_ptr<Upstream> upstream;
  auto& idle = impl_->idle[endpoint->url];
  if (!idle.empty()) {  // the most recently used one is the least likely to be closed under us
    upstream = std::move(idle.back());
    idle.pop_back();
  } else {
    upstream = std::make_shared<Upstream>(impl_, endpoint);
    impl_->all.insert(upstream);
  }
  upstream->begin(std::move(head), body, std::move(handler));
  return std::make_shared<UpstreamCall>(std::move(upstream));
}

std::size_t HttpClient::idle_connections() const {
  std::size_t n = 0;
  for (const auto& [url, connections] : impl_->idle) n += connections.size();
  return n;
}

Result<Endpoint> resolve_endpoint(std::string_view url, std::string_view where) {
  Endpoint out;
  std::string_view rest = url;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.find("://") != std::string_view::npos) {
    return bad_input(std::string(where), fmt::format("\"{}\": only http:// URLs are spoken here", url));
  }
  const std::size_t slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) out.prefix = rest.substr(slash);
  while (out.prefix.ends_with('/')) out.prefix.pop_back();
  std::string with_port(authority);
  const std::size_t colon = with_port.rfind(':');
  if (colon == std::string::npos || with_port.ends_with(']')) with_port += ":80";
  const auto parsed = parse_host_port(with_port, where);
  if (!parsed || parsed->port == 0 || authority.empty()) {
    return bad_input(std::string(where), fmt::format("\"{}\" is not a URL like http://127.0.0.1:8100", url));
  }
  out.host_port = authority;
  out.port = parsed->port;
  asio::io_context context;
  Tcp::resolver resolver(context);
  error_code ec;
  const auto found = resolver.resolve(parsed->host, std::to_string(parsed->port), ec);
  if (ec || found.empty()) {
    return external_failure(std::string(where), fmt::format("cannot resolve \"{}\": {}", parsed->host, ec.message()));
  }
  out.address = found.begin()->endpoint().address().to_string();
  out.url = fmt::format("http://{}{}", authority, out.prefix);
  return out;
}

}  // namespace wattle::net
