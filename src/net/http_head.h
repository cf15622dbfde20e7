#pragma once
// Parses the complete header of one HTTP/1.1 message (RFC 9112, 2 to 6). Strict: a header that two parsers could
// interpret differently is refused (bare CR or LF, folded lines, a space before a colon, two lengths). No state, no
// sockets.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "net/http_message.h"

namespace wattle::net {

/// Why a message was refused, as the status a server should answer: 400, 413, 431, 501 or 505. 0 = nothing wrong so
/// far.
struct ParseProblem {
  enum class Kind : std::uint8_t { Form, Framing, Size };
  int status = 0;
  const char* what = "";
  Kind kind = Kind::Form;  ///< Framing: the message's length is not reliable
  explicit operator bool() const { return status != 0; }
};

/// The end of the header at the start of these bytes: after its empty line, or after the first line with an invalid
/// line end; 0: it is incomplete. The first `searched` bytes have been searched before.
[[nodiscard]] std::size_t header_end(std::string_view bytes, std::size_t& searched);

/// What the fields say about the end of the message and of the connection.
struct Framing {
  std::optional<std::uint64_t> length;
  bool chunked = false;
  bool keep_alive = true;
};

struct RequestHead {
  std::string_view method, target;
  bool http11 = true;
  Framing framing;
  ParseProblem problem;
};
struct ResponseHead {
  int status = 0;
  bool http11 = true;
  Framing framing;
  ParseProblem problem;
};

/// `header` is complete according to header_end(). Its fields are stored in `fields`, which must not be used if there
/// is a problem.
[[nodiscard]] RequestHead read_request_head(std::string_view header, HeaderFields& fields);
[[nodiscard]] ResponseHead read_response_head(std::string_view header, HeaderFields& fields);

/// Whether this line, without its line end, is exactly one field, as in a trailer.
[[nodiscard]] bool is_field(std::string_view line);
/// Whether it contains a control character other than a tab.
[[nodiscard]] bool has_controls(std::string_view line);
/// Whether the character is permitted in methods and field names.
[[nodiscard]] bool is_token_char(char c);

}  // namespace wattle::net
