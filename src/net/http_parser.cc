#include "net/http_parser.h"

#include <algorithm>
#include <limits>

namespace wattle::net {

namespace {

constexpr std::size_t kBodyKept = 256 * 1024;  ///< one large request must not pin memory for good

/// The origin form of a target in absolute form (RFC 9112, 3.2.2), any other as it is. May need a '/' before it.
std::string_view without_authority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_name(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    return target.substr(std::min(target.find_first_of("/?#"), target.size()));
  }
  return target;
}

/// The header that begins these bytes, if all of it is there. `first`: whether a message's first byte may be this one.
template <typename First>
std::string_view whole_header(std::string_view bytes, std::size_t most, std::size_t& searched, ParseProblem& problem,
                              First&& first) {
  const std::size_t end = header_end(bytes, searched);
  if (end > most || (end == 0 && bytes.size() >= most)) {
    problem = {431, "the request header is larger than this server accepts", ParseProblem::Kind::Size};
    return {};
  }
  // Another protocol's first words may have no line's end for long.
  if (end == 0 && !bytes.empty() && !first(bytes.front())) problem = {400, "malformed HTTP message"};
  return bytes.substr(0, end);
}

}  // namespace

std::size_t RequestParser::feed(std::string_view bytes) {
  if (problem_) return 0;
  std::size_t taken = 0;
  if (!header_done_) {
    const std::string_view header = whole_header(bytes, limits_.header_bytes, searched_, problem_, is_token_char);
    if (problem_ || header.empty()) return 0;
    take_head(header);
    if (problem_) return 0;
    taken = header.size();
  }
  taken += body_reader_.feed(bytes.substr(taken), [this](std::string_view piece) { add_body(piece); });
  problem_ = body_reader_.problem();
  return taken;
}

void RequestParser::take_head(std::string_view header) {
  const RequestHead head = read_request_head(header, headers_);
  problem_ = head.problem;
  method_ = head.method;
  http11_ = head.http11;
  if (problem_) return;
  const std::string_view path = without_authority(head.target);
  target_.assign(path.size() < head.target.size() && !path.starts_with('/') ? "/" : "").append(path);
  keep_alive_ = head.framing.keep_alive;
  const std::uint64_t length = head.framing.length.value_or(0);
  body_reader_.begin(head.framing.chunked ? BodyReader::Ends::ByChunks : BodyReader::Ends::ByLength, length,
                     limits_.body_bytes);
  problem_ = body_reader_.problem();
  if (problem_) return;
  if (length > 0) body_.reserve(static_cast<std::size_t>(length) + kBodyPadding);
  header_done_ = true;
}

void RequestParser::add_body(std::string_view bytes) {
  if (body_.capacity() < body_.size() + bytes.size() + kBodyPadding) {
    body_.reserve(2 * (body_.size() + bytes.size()) + kBodyPadding);
  }
  body_.append(bytes);
}

void RequestParser::reset() {
  method_ = {};
  target_.clear();
  body_.clear();
  if (body_.capacity() > kBodyKept) body_ = std::string();
  headers_.clear();
  body_reader_ = {};
  problem_ = {};
  searched_ = 0;
  header_done_ = keep_alive_ = false;
  http11_ = true;
}

std::size_t ResponseParser::feed(std::string_view bytes) {
  if (problem_ || bytes.empty()) return 0;
  started_ = true;
  if (header_done_) {
    const std::size_t taken = body_reader_.feed(bytes, [this](std::string_view piece) { sink_.on_body_piece(piece); });
    problem_ = body_reader_.problem();
    return taken;
  }
  const auto first = [](char c) { return c == 'H'; };
  const std::string_view header = whole_header(bytes, header_bytes_, searched_, problem_, first);
  if (problem_ || header.empty()) return 0;
  take_head(header);
  return problem_ ? 0 : header.size();
}

void ResponseParser::take_head(std::string_view header) {
  head_ = read_response_head(header, headers_);
  problem_ = head_.problem;
  if (problem_) return;
  header_done_ = true;
  using Ends = BodyReader::Ends;
  const int status = head_.status;
  const bool bodiless = status / 100 == 1 || status == 204 || status == 304;  // whatever its fields say (6.3)
  const Ends ends = bodiless                ? Ends::Here
                    : head_.framing.chunked ? Ends::ByChunks
                    : head_.framing.length  ? Ends::ByLength
                                            : Ends::WithConnection;
  body_reader_.begin(ends, head_.framing.length.value_or(0), std::numeric_limits<std::uint64_t>::max());
}

void ResponseParser::feed_eof() {
  if (done()) return;
  if (header_done_ && body_reader_.ends_with_connection()) {
    ended_ = true;
  } else {
    problem_ = {502, "the connection closed before the response was complete"};
  }
}

void ResponseParser::reset() {
  headers_.clear();
  head_ = {};
  body_reader_ = {};
  problem_ = {};
  searched_ = 0;
  started_ = header_done_ = ended_ = false;
}

}  // namespace wattle::net
