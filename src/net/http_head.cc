#include "net/http_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/trimmed.h"

namespace wattle::net {

namespace {

constexpr std::size_t kFieldsMost = 128;
constexpr ParseProblem kMalformed{400, "malformed HTTP message"};
constexpr ParseProblem kLength{400, "Content-Length is no number, or several", ParseProblem::Kind::Framing};

constexpr auto kTokenChars = [] {
  std::array<bool, 256> out{};
  for (unsigned char c = '0'; c <= '9'; ++c) out[c] = true;
  for (unsigned char c = 'a'; c <= 'z'; ++c) out[c] = out[static_cast<unsigned char>(c - 'a' + 'A')] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) out[static_cast<unsigned char>(c)] = true;
  return out;
}();

bool is_one_of(const std::array<bool, 256>& chars, char c) { return chars[static_cast<unsigned char>(c)]; }

/// How many of the first bytes a token has.
std::size_t token_length(std::string_view text) {
  const auto* const end = std::ranges::find_if_not(text, [](char c) { return is_one_of(kTokenChars, c); });
  return static_cast<std::size_t>(end - text.begin());
}

/// What has no place in HOST or HOST:PORT.
constexpr auto kNotInHost = [] {
  std::array<bool, 256> out{};
  for (const char c : std::string_view(" \t/?#@\\,")) out[static_cast<unsigned char>(c)] = true;
  return out;
}();

/// Any control but tabs and the CR and LF of line ends. A loop that becomes vector instructions.
bool has_strangers(std::string_view block) {
  std::uint8_t any = 0;
  for (const char c : block) {
    const auto byte = static_cast<std::uint8_t>(c);
    const bool control = byte < 0x20 || byte == 0x7f;
    const bool known = byte == '\t' || byte == '\r' || byte == '\n';
    any = static_cast<std::uint8_t>(any | static_cast<std::uint8_t>(control && !known));
  }
  return any != 0;
}

/// The next line, without its end. What header_end() has let pass has a CR before each LF; here no other CR passes.
bool next_line(std::string_view& rest, std::string_view& line) {
  const std::size_t end = rest.find('\r');
  if (end == std::string_view::npos || end + 1 >= rest.size() || rest[end + 1] != '\n') return false;
  line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return true;
}

enum class Version : std::uint8_t { None, Http10, Http11, Other };

Version version_of(std::string_view text) {
  if (text == "HTTP/1.1") return Version::Http11;
  if (text == "HTTP/1.0") return Version::Http10;
  const auto digit = [text](std::size_t at) { return text[at] >= '0' && text[at] <= '9'; };
  const bool other = text.size() == 8 && text.starts_with("HTTP/") && digit(5) && text[6] == '.' && digit(7);
  return other ? Version::Other : Version::None;
}

ParseProblem wrong_version(Version version) {
  return version == Version::Other ? ParseProblem{505, "only HTTP/1.0 and HTTP/1.1 are spoken here"} : kMalformed;
}

template <typename Each>
void each_element(std::string_view list, const Each& each) {
  for (;;) {
    const std::size_t comma = list.find(',');
    each(trimmed(list.substr(0, comma)));
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

/// What is said by fields that concern us, as they come.
class FieldReader {
 public:
  explicit FieldReader(HeaderFields& fields) : fields_(fields) {}

  /// `lines`: all behind the first one, the empty one included; they lie in what `fields` has.
  ParseProblem read(std::string_view lines) {
    std::string_view line;
    while (next_line(lines, line)) {
      if (line.empty()) return lines.empty() ? problem_ : kMalformed;
      const std::size_t name = token_length(line);
      if (name == 0 || name == line.size() || line[name] != ':') return kMalformed;
      if (fields_.size() == kFieldsMost) return {431, "the header has too many fields", ParseProblem::Kind::Size};
      const std::string_view value = trimmed(line.substr(name + 1));
      fields_.add_held(line.substr(0, name), value);
      take(line.substr(0, name), value);
    }
    return kMalformed;
  }
  [[nodiscard]] const std::optional<std::uint64_t>& length() const { return length_; }
  [[nodiscard]] bool has_codings() const { return codings_ > 0; }
  [[nodiscard]] bool closes() const { return closes_; }
  [[nodiscard]] bool keeps() const { return keeps_; }

  /// Transfer codings other than exactly "chunked" (6.1 and 6.3), and whatever else says of it how long it is.
  [[nodiscard]] ParseProblem check_codings() const {
    if (codings_ == 0) return {};
    if (codings_ > 1 || !same_name(coding_, "chunked")) {
      if (same_name(trimmed(coding_.substr(coding_.rfind(',') + 1)), "chunked")) {
        return {501, "no transfer coding but chunked is known here", ParseProblem::Kind::Framing};
      }
      return {400, "the last transfer coding must be chunked", ParseProblem::Kind::Framing};
    }
    if (!length_) return {};
    return {400, "Content-Length beside Transfer-Encoding", ParseProblem::Kind::Framing};
  }
  /// Exactly one Host (3.2), which HTTP/1.0 may leave out.
  [[nodiscard]] ParseProblem check_host(bool http11) const {
    if (hosts_ > 1 || !host_sound_) return {400, "a request has one Host, HOST or HOST:PORT"};
    return hosts_ == 0 && http11 ? ParseProblem{400, "a request of HTTP/1.1 has a Host"} : ParseProblem{};
  }

 private:
  void take(std::string_view name, std::string_view value) {
    switch (name.size()) {  // most have a length that none of these has
      case 4:
        if (!same_name(name, "Host")) return;
        ++hosts_;
        host_sound_ = host_sound_ && std::ranges::none_of(value, [](char c) { return is_one_of(kNotInHost, c); });
        return;
      case 10:
        if (!same_name(name, "Connection")) return;
        each_element(value, [this](std::string_view option) {
          if (token_length(option) != option.size()) problem_ = kMalformed;
          closes_ = closes_ || same_name(option, "close");
          keeps_ = keeps_ || same_name(option, "keep-alive");
        });
        return;
      case 14:
        if (same_name(name, "Content-Length")) each_element(value, [this](std::string_view one) { take_length(one); });
        return;
      case 17:
        if (!same_name(name, "Transfer-Encoding")) return;
        ++codings_;
        coding_ = value;
        return;
      default:
        return;
    }
  }
  /// Said again it has to be the same (6.3).
  void take_length(std::string_view text) {
    std::uint64_t length = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), length);
    const bool number = ec == std::errc() && end == text.data() + text.size() && !text.empty();
    if (!number || length > std::numeric_limits<std::int64_t>::max() || (length_ && *length_ != length)) {
      problem_ = kLength;
    } else {
      length_ = length;
    }
  }

  HeaderFields& fields_;
  ParseProblem problem_;
  std::optional<std::uint64_t> length_;
  std::string_view coding_;  ///< of the last such line
  int codings_ = 0;
  int hosts_ = 0;
  bool host_sound_ = true;
  bool closes_ = false;
  bool keeps_ = false;
};

/// What both directions have: a version in the first line, then fields. False: `out` has the problem.
template <typename Head>
bool read_rest(std::string_view version_text, std::string_view lines, FieldReader& reader, Head& out) {
  const Version version = version_of(version_text);
  const bool known = version == Version::Http10 || version == Version::Http11;
  out.http11 = version != Version::Http10;
  out.problem = known ? reader.read(lines) : wrong_version(version);
  if (out.problem) return false;
  out.framing = {reader.length(), reader.has_codings(), !reader.closes() && (out.http11 || reader.keeps())};
  return true;
}

}  // namespace

bool is_token_char(char c) { return is_one_of(kTokenChars, c); }

bool has_controls(std::string_view line) {
  return std::ranges::any_of(line, [](char c) {
    const auto byte = static_cast<std::uint8_t>(c);
    return (byte < 0x20 && byte != '\t') || byte == 0x7f;
  });
}

bool is_field(std::string_view line) {
  const std::size_t name = token_length(line);
  return name > 0 && name < line.size() && line[name] == ':' && !has_controls(line);
}

std::size_t header_end(std::string_view bytes, std::size_t& searched) {
  for (std::size_t at = bytes.find('\n', searched); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    if (at == 0 || bytes[at - 1] != '\r') return at + 1;
    if (at == 1 || bytes[at - 2] == '\n') return at + 1;
  }
  searched = bytes.size();
  return 0;
}

RequestHead read_request_head(std::string_view header, HeaderFields& fields) {
  RequestHead out;
  std::string_view lines = fields.hold(header);
  std::string_view first;
  out.problem = kMalformed;
  if (has_strangers(lines) || !next_line(lines, first)) return out;
  const std::size_t method = token_length(first);
  if (method == 0 || method == first.size() || first[method] != ' ') return out;
  out.method = first.substr(0, method);
  first.remove_prefix(method + 1);
  const std::size_t target = first.find(' ');
  if (target == 0 || target == std::string_view::npos) return out;
  out.target = first.substr(0, target);
  if (out.target.find('\t') != std::string_view::npos) return out;
  FieldReader reader(fields);
  if (!read_rest(first.substr(target + 1), lines, reader, out)) return out;
  out.problem = reader.check_host(out.http11);
  if (!out.problem && !out.http11 && reader.has_codings()) {
    out.problem = {400, "HTTP/1.0 has no transfer codings", ParseProblem::Kind::Framing};
  }
  if (!out.problem) out.problem = reader.check_codings();
  return out;
}

ResponseHead read_response_head(std::string_view header, HeaderFields& fields) {
  ResponseHead out;
  std::string_view lines = fields.hold(header);
  std::string_view first;
  out.problem = kMalformed;
  if (has_strangers(lines) || !next_line(lines, first)) return out;
  constexpr std::size_t kVersion = 8, kCode = kVersion + 1, kReason = kCode + 4;  // "HTTP/1.1 200 OK"
  if (first.size() < kReason || first[kVersion] != ' ' || first[kReason - 1] != ' ') return out;
  const auto [end, ec] = std::from_chars(first.data() + kCode, first.data() + kReason - 1, out.status);
  if (ec != std::errc() || end != first.data() + kReason - 1 || out.status < 100) return out;
  FieldReader reader(fields);
  if (!read_rest(first.substr(0, kVersion), lines, reader, out)) return out;
  out.problem = reader.check_codings();
  // An older server's framing by chunks is not to be relied on beyond this answer (6.1).
  if (!out.http11 && reader.has_codings()) out.framing.keep_alive = false;
  return out;
}

}  // namespace wattle::net
