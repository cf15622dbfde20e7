#pragma once
// Where the body of one HTTP/1.1 message ends, and which of its bytes are content (RFC 9112, 6 and 7). No sockets.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "net/http_head.h"

namespace wattle::net {

class BodyReader {
 public:
  enum class Ends : std::uint8_t { Here, ByLength, ByChunks, WithConnection };
  /// `most`: largest content in bytes; more is a 413.
  void begin(Ends ends, std::uint64_t length, std::uint64_t most) {
    left_ = ends == Ends::ByLength ? length : 0;
    room_ = most;
    control_ = 0;
    at_ = ends == Ends::ByLength   ? (length == 0 ? At::End : At::Content)
          : ends == Ends::ByChunks ? At::ChunkSize
          : ends == Ends::Here     ? At::End
                                   : At::Rest;
    if (ends == Ends::ByLength && length > most) problem_ = kTooLarge;
  }
  [[nodiscard]] bool done() const { return at_ == At::End; }
  [[nodiscard]] bool ends_with_connection() const { return at_ == At::Rest; }
  [[nodiscard]] const ParseProblem& problem() const { return problem_; }

  /// Returns the number of bytes consumed. Nothing of an incomplete line is consumed: pass it again with the bytes that
  /// follow. `content` is called with each piece of content.
  template <typename Content>
  std::size_t feed(std::string_view bytes, Content&& content) {
    std::string_view rest = bytes;
    while (!rest.empty() && at_ != At::End && !problem_) {
      const std::size_t before = rest.size();
      if (at_ == At::Content || at_ == At::ChunkContent) {
        const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(left_, rest.size()));
        left_ -= now;
        if (left_ == 0) at_ = at_ == At::Content ? At::End : At::ChunkEnd;
        const std::string_view piece = rest.substr(0, now);
        rest.remove_prefix(now);
        content(piece);
      } else if (at_ == At::Rest) {
        content(std::exchange(rest, {}));
      } else {
        rest.remove_prefix(take_line(rest));
        if (rest.size() == before) break;
      }
    }
    return bytes.size() - rest.size();
  }

 private:
  enum class At : std::uint8_t { Content, ChunkSize, ChunkContent, ChunkEnd, Trailers, Rest, End };
  static constexpr ParseProblem kTooLarge{413, "the request body is larger than this server accepts"};
  /// Limit on a chunk's size line, and on all trailers together.
  static constexpr std::size_t kControlMost = 16 * 1024;

  std::size_t take_line(std::string_view bytes);
  void take_size(std::string_view line);

  At at_ = At::End;
  std::uint64_t left_ = 0;   ///< of the content, or of this chunk's
  std::uint64_t room_ = 0;   ///< for more content
  std::size_t control_ = 0;  ///< bytes of trailers
  ParseProblem problem_;
};

}  // namespace wattle::net
