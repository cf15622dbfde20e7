#pragma once
// The header of one HTTP/1.1 message (RFC 9112, 2 to 6), once all of it is there. Strict: what two readers could take
// for two different messages is refused (bare CR or LF, folded lines, a space before a colon, two lengths). No state,
// no sockets.
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
  Kind kind = Kind::Form;  ///< Framing: how long the message is cannot be relied on
  explicit operator bool() const { return status != 0; }
};

/// Where the header that begins these bytes ends, behind its empty line, or behind the first line that has no proper
/// end; 0: it goes on. `searched` bytes of it have been looked at.
[[nodiscard]] std::size_t header_end(std::string_view bytes, std::size_t& searched);

/// What the fields say of the message's end, and of the connection's.
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

/// `header` is whole, as header_end() says. Fields go into `fields`, which are of no use when there is a problem.
[[nodiscard]] RequestHead read_request_head(std::string_view header, HeaderFields& fields);
[[nodiscard]] ResponseHead read_response_head(std::string_view header, HeaderFields& fields);

/// Whether this is one field and nothing else, as a trailer has it; without its line's end.
[[nodiscard]] bool is_field(std::string_view line);
/// Some byte of it is a control, but for tabs.
[[nodiscard]] bool has_controls(std::string_view line);
/// Whether a request's method, or a field's name, may have it.
[[nodiscard]] bool is_token_char(char c);

}  // namespace wattle::net
