// HTTP/1.1 messages: the result does not depend on how the bytes are split, and what we accept another parser (Beast's)
// accepts with the same end: where two parsers differ, requests can be smuggled.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

#include "base/digest.h"
#include "base/random.h"
#include "fuzz.h"
#include "net/http_parser.h"

namespace wattle::fuzz {

namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

constexpr std::uint32_t kHeaderMost = 2048;
constexpr std::uint64_t kBodyMost = 512;

std::string text(string_view s) { return {s.data(), s.size()}; }

/// The parsed parts of a message.
struct Read {
  bool refused = false;
  bool done = false;
  std::size_t taken = 0;
  std::string first;  ///< line
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  bool keep_alive = false;
  error_code why;  ///< refused: Beast's
  bool in_body = false;
  bool in_trailers = false;
  bool operator==(const Read& o) const {
    if (refused || o.refused) return refused == o.refused;
    return done == o.done && taken == o.taken && first == o.first && fields == o.fields && body == o.body &&
           keep_alive == o.keep_alive;
  }
};

template <bool IsRequest>
class Reference final : public http::basic_parser<IsRequest> {
 public:
  explicit Reference(Read& into) : into_(into) {}

 private:
  void on_request_impl(http::verb, string_view method, string_view target, int version, error_code&) override {
    into_.first = text(method) + " " + text(target) + (version == 11 ? " 1" : " 0");
  }
  void on_response_impl(int code, string_view, int, error_code&) override { into_.first = std::to_string(code); }
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    if (!into_.in_body) into_.fields.emplace_back(text(name), text(value));
  }
  void on_header_impl(error_code&) override { into_.in_body = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view body, error_code&) override {
    into_.body += text(body);
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t size, string_view, error_code&) override { into_.in_trailers = size == 0; }
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    into_.body += text(body);
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  Read& into_;
};

template <bool IsRequest>
Read by_reference(std::string_view bytes) {
  Read out;
  Reference<IsRequest> parser(out);
  parser.header_limit(kHeaderMost);
  parser.body_limit(IsRequest ? boost::optional<std::uint64_t>(kBodyMost) : boost::none);
  parser.eager(true);
  while (!parser.is_done() && out.taken < bytes.size()) {
    error_code ec;
    const std::size_t n = parser.put(boost::asio::const_buffer(bytes.data() + out.taken, bytes.size() - out.taken), ec);
    out.taken += n;
    if (ec == http::error::need_more) break;
    if (ec) {
      out.refused = true;
      out.why = ec;
      return out;
    }
    if (n == 0) break;
  }
  out.done = parser.is_done();
  if (parser.is_header_done()) out.keep_alive = parser.keep_alive();
  return out;
}

struct Sink final : net::BodySink {
  std::string body;
  void on_body_piece(std::string_view bytes) override { body += bytes; }
};

/// Feeds pieces of 1 to `largest` bytes, or everything at once if that is 0; unread bytes are kept, as connections do.
template <typename Parser>
std::size_t feed(Parser& parser, std::string_view bytes, std::size_t largest, std::uint64_t seed) {
  RandomStream random(seed, "pieces");
  std::string held;
  std::size_t taken = 0;
  while (!bytes.empty() && !parser.done() && !parser.problem()) {
    const std::size_t size =
        largest == 0 ? bytes.size() : std::min(bytes.size(), static_cast<std::size_t>(random.below(largest)) + 1);
    held += bytes.substr(0, size);
    bytes.remove_prefix(size);
    while (!held.empty() && !parser.done() && !parser.problem()) {
      const std::size_t n = parser.feed(held);
      taken += n;
      held.erase(0, n);
      if (n == 0) break;
    }
  }
  return taken;
}

template <typename Parser>
void take_common(Read& out, const Parser& parser) {
  out.refused = static_cast<bool>(parser.problem());
  out.done = parser.done();
  if (!parser.header_done()) return;
  out.keep_alive = parser.keep_alive();
  for (std::size_t i = 0; i < parser.headers().size(); ++i) {
    const auto field = parser.headers().at(i);
    out.fields.emplace_back(field.name, field.value);
  }
}

Read request(std::string_view bytes, std::size_t largest, std::uint64_t seed) {
  Read out;
  net::RequestParser parser({kHeaderMost, kBodyMost});
  out.taken = feed(parser, bytes, largest, seed);
  take_common(out, parser);
  out.body = parser.body();
  if (parser.header_done()) {
    out.first = std::string(parser.method()) + " " + std::string(parser.target()) + (parser.http11() ? " 1" : " 0");
  }
  return out;
}

Read response(std::string_view bytes, std::size_t largest, std::uint64_t seed) {
  Read out;
  Sink sink;
  net::ResponseParser parser(kHeaderMost, sink);
  out.taken = feed(parser, bytes, largest, seed);
  take_common(out, parser);
  out.body = sink.body;
  if (parser.header_done()) out.first = std::to_string(parser.status());
  return out;
}

bool has_field(const Read& read, std::string_view name) {
  return std::ranges::any_of(read.fields, [&](const auto& field) { return net::same_name(field.first, name); });
}

std::string difference(const Read& ours, const Read& theirs) {
  if (ours.refused) return "";        // we may be stricter
  if (ours.first.empty()) return "";  // the header is incomplete: errors are found at its end
  // It takes that field for Connection.
  const bool proxy = has_field(ours, "Proxy-Connection");
  if (theirs.refused) {
    if (theirs.in_body && !ours.done) return "";  // an incomplete line, again
    // Extensions and trailers are read for their end alone.
    if (theirs.why == http::error::bad_chunk_extension || theirs.in_trailers) return "";
    if (proxy && theirs.why == http::error::bad_value) return "";
    return "accepted, which another reader refuses: " + theirs.why.message();
  }
  if (ours.done != theirs.done) return "another reader sees the message's end elsewhere, or not";
  if (!ours.done) return "";  // parsers differ in how much of an incomplete line they read
  if (ours.taken != theirs.taken) return "another reader ends the message at another byte";
  // A target in absolute form is ours to take apart.
  if (ours.first != theirs.first && theirs.first.find("://") == std::string::npos) {
    return "another reader reads another first line: " + theirs.first;
  }
  if (ours.fields != theirs.fields) return "another reader reads other fields";
  if (ours.body != theirs.body) return "another reader reads another body";
  // Where there are chunks it takes trailers for fields.
  if (ours.keep_alive && !theirs.keep_alive && !proxy && !theirs.in_trailers)
    return "kept alive, which another reader would close";
  return "";
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "POST /v1/completions HTTP/1.1\r\nHost: h:8000\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
      "GET /?a=b HTTP/1.0\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: Chunked\r\nX: \t y \r\n\r\n1\r\na\r\n0\r\nX-Trailer: z\r\n\r\n",
      "PUT http://h/x HTTP/1.1\r\nHost: h\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nhi",
      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello",
      "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
      "HTTP/1.0 404 Not Found\r\nConnection: keep-alive, x\r\n\r\nto the end",
      "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n"};
}

Verdict parse(std::string_view input) {
  Digest digest;
  digest.add_text(input);
  const bool is_request = !input.starts_with("HTTP/");
  const auto read = is_request ? request : response;
  const Read whole = read(input, 0, 0);
  if (!(read(input, 1, 0) == whole)) return {true, "byte by byte, another message comes out"};
  if (!(read(input, 16, digest.value()) == whole)) return {true, "in pieces, another message comes out"};
  if (whole.body.size() > kBodyMost && is_request) return {true, "a body above the limit was accepted"};
  const Read theirs = is_request ? by_reference<true>(input) : by_reference<false>(input);
  return {!whole.refused && !whole.first.empty(), difference(whole, theirs)};
}

}  // namespace wattle::fuzz
