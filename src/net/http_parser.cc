#include "net/http_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <limits>
#include <optional>

#include "base/trimmed.h"

namespace wattle::net {

namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

std::string_view plain(string_view s) { return {s.data(), s.size()}; }

ParseProblem problem_of(const error_code& ec) {
  if (ec == http::error::body_limit) return {413, "the request body is larger than this server accepts"};
  if (ec == http::error::header_limit) {
    return {431, "the request header is larger than this server accepts", ParseProblem::Kind::Size};
  }
  if (ec == http::error::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  const bool framing = ec == http::error::bad_content_length || ec == http::error::multiple_content_length ||
                       ec == http::error::bad_transfer_encoding;
  return {400, "malformed HTTP message", framing ? ParseProblem::Kind::Framing : ParseProblem::Kind::Form};
}

/// Transfer codings other than exactly "chunked" (RFC 9112, 6.1 and 6.3): Beast takes a message with one for a message
/// without a body.
ParseProblem check_codings(const HeaderFields& fields) {
  std::string_view last;
  int lines = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields.at(i);
    if (!same_name(field.name, "Transfer-Encoding")) continue;
    ++lines;
    last = trimmed(field.value);
  }
  if (lines == 0 || (lines == 1 && same_name(last, "chunked"))) return {};
  if (same_name(trimmed(last.substr(last.rfind(',') + 1)), "chunked")) {
    return {501, "no transfer coding but chunked is known here", ParseProblem::Kind::Framing};
  }
  return {400, "the last transfer coding must be chunked", ParseProblem::Kind::Framing};
}

/// RFC 9112, 3.2: exactly one Host, which HTTP/1.0 may leave out.
ParseProblem check_host(const HeaderFields& fields, bool http11) {
  int hosts = 0;
  bool sound = true;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields.at(i);
    if (!same_name(field.name, "Host")) continue;
    ++hosts;
    sound = sound && field.value.find_first_of(" \t/?#@\\,") == std::string_view::npos;
  }
  if (hosts > 1 || !sound) return {400, "a request has one Host, HOST or HOST:PORT"};
  return hosts == 0 && http11 ? ParseProblem{400, "a request of HTTP/1.1 has a Host"} : ParseProblem{};
}

/// The origin form of a target in absolute form (RFC 9112, 3.2.2), any other as it is. May need a '/' before it.
std::string_view without_authority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_name(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    return target.substr(std::min(target.find_first_of("/?#"), target.size()));
  }
  return target;
}

/// What both directions record. `Derived` decides where body bytes go.
template <bool IsRequest, typename Owner>
class Recorder final : public http::basic_parser<IsRequest> {
 public:
  explicit Recorder(Owner& owner) : owner_(owner) {}

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version, error_code&) override {
    owner_.on_start(plain(method), plain(target), version);
  }
  void on_response_impl(int code, string_view, int, error_code&) override { owner_.on_start({}, {}, code); }
  void on_field_impl(http::field, string_view name, string_view value, error_code& ec) override {
    if (owner_.headers.size() >= 128) {
      ec = http::error::header_limit;
      return;
    }
    owner_.headers.add(plain(name), plain(value));
  }
  void on_header_impl(error_code& ec) override {
    owner_.problem = owner_.check_header();
    if (owner_.problem) ec = http::error::bad_value;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    owner_.on_body_start(length ? static_cast<std::int64_t>(*length) : -1);
  }
  std::size_t on_body_impl(string_view body, error_code&) override {
    owner_.on_body(plain(body));
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    owner_.on_body(plain(body));
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  Owner& owner_;
};

/// Feeds until the parser wants more, is done, or (stop_at_header) the header has just ended.
template <typename Parser>
std::size_t drive(Parser& parser, std::string_view bytes, bool stop_at_header, ParseProblem& problem) {
  std::size_t taken = 0;
  while (!parser.is_done() && !problem) {
    const bool had_header = parser.is_header_done();
    error_code ec;
    const std::size_t n = parser.put(boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken), ec);
    taken += n;
    if (ec == http::error::need_more) break;
    if (ec && !problem) problem = problem_of(ec);
    if (stop_at_header && !had_header && parser.is_header_done()) {
      parser.eager(true);
      break;
    }
    if (n == 0 || taken == bytes.size()) break;
  }
  return taken;
}

}  // namespace

struct RequestParser::Impl {
  HttpLimits limits;
  int version = 11;
  std::string method, target, body;
  HeaderFields headers;
  ParseProblem problem;
  std::optional<Recorder<true, Impl>> parser;

  explicit Impl(HttpLimits l) : limits(l) { restart(); }
  void restart() {
    method.clear();
    target.clear();
    body.clear();
    if (body.capacity() > 256 * 1024) body = std::string();  // one large request must not pin memory for good
    headers.clear();
    problem = {};
    parser.emplace(*this);
    parser->header_limit(limits.header_bytes);
    parser->body_limit(limits.body_bytes);
    parser->eager(true);
  }
  void on_start(std::string_view m, std::string_view t, int v) {
    version = v;
    method = m;
    const std::string_view path = without_authority(t);
    target.assign(path.size() < t.size() && !path.starts_with('/') ? "/" : "").append(path);
  }
  [[nodiscard]] ParseProblem check_header() const {
    const ParseProblem host = check_host(headers, version == 11);
    if (host) return host;
    if (version != 11 && !headers.get("Transfer-Encoding").empty()) {
      return {400, "HTTP/1.0 has no transfer codings", ParseProblem::Kind::Framing};
    }
    return check_codings(headers);
  }
  void on_body_start(std::int64_t length) {
    if (length > 0) body.reserve(static_cast<std::size_t>(length) + kBodyPadding);
  }
  void on_body(std::string_view bytes) {
    if (body.capacity() < body.size() + bytes.size() + kBodyPadding) {
      body.reserve(2 * (body.size() + bytes.size()) + kBodyPadding);
    }
    body.append(bytes);
  }
};

RequestParser::RequestParser(HttpLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;
std::size_t RequestParser::feed(std::string_view bytes) {
  if (impl_->problem) return 0;
  return drive(*impl_->parser, bytes, false, impl_->problem);
}
void RequestParser::reset() { impl_->restart(); }
bool RequestParser::header_done() const { return impl_->parser->is_header_done(); }
bool RequestParser::done() const { return impl_->parser->is_done(); }
bool RequestParser::keep_alive() const { return impl_->parser->keep_alive(); }
bool RequestParser::http11() const { return impl_->version == 11; }
const ParseProblem& RequestParser::problem() const { return impl_->problem; }
std::string_view RequestParser::method() const { return impl_->method; }
std::string_view RequestParser::target() const { return impl_->target; }
const HeaderFields& RequestParser::headers() const { return impl_->headers; }
const std::string& RequestParser::body() const { return impl_->body; }

struct ResponseParser::Impl {
  std::uint32_t header_bytes;
  BodySink& sink;
  int status = 0;
  HeaderFields headers;
  ParseProblem problem;
  std::optional<Recorder<false, Impl>> parser;

  Impl(std::uint32_t limit, BodySink& s) : header_bytes(limit), sink(s) { restart(); }
  void restart() {
    status = 0;
    headers.clear();
    problem = {};
    parser.emplace(*this);
    parser->header_limit(header_bytes);
    parser->body_limit(boost::none);
    parser->eager(false);  // until the header is done
  }
  void on_start(std::string_view, std::string_view, int code) { status = code; }
  [[nodiscard]] ParseProblem check_header() const { return check_codings(headers); }
  void on_body_start(std::int64_t) {}
  void on_body(std::string_view bytes) { sink.on_body_piece(bytes); }
};

ResponseParser::ResponseParser(std::uint32_t header_bytes, BodySink& sink)
    : impl_(std::make_unique<Impl>(header_bytes, sink)) {}
ResponseParser::~ResponseParser() = default;
std::size_t ResponseParser::feed(std::string_view bytes) {
  if (impl_->problem) return 0;
  return drive(*impl_->parser, bytes, true, impl_->problem);
}
void ResponseParser::feed_eof() {
  if (impl_->parser->is_done()) return;
  error_code ec;
  if (impl_->parser->got_some()) {
    impl_->parser->put_eof(ec);
  } else {
    ec = http::error::end_of_stream;
  }
  if (ec) impl_->problem = {502, "the connection closed before the response was complete"};
}
void ResponseParser::reset() { impl_->restart(); }
bool ResponseParser::started() const { return impl_->parser->got_some(); }
bool ResponseParser::header_done() const { return impl_->parser->is_header_done(); }
bool ResponseParser::done() const { return impl_->parser->is_done(); }
bool ResponseParser::keep_alive() const { return impl_->parser->keep_alive(); }
const ParseProblem& ResponseParser::problem() const { return impl_->problem; }
int ResponseParser::status() const { return impl_->status; }
std::int64_t ResponseParser::content_length() const {
  const auto stated = impl_->parser->content_length();
  return stated ? static_cast<std::int64_t>(*stated) : -1;
}
const HeaderFields& ResponseParser::headers() const { return impl_->headers; }

}  // namespace wattle::net
