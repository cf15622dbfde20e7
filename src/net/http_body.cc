#include "net/http_body.h"

#include <algorithm>
#include <charconv>

#include "base/trimmed.h"

namespace wattle::net {

namespace {
constexpr ParseProblem kBadChunk{400, "malformed chunk", ParseProblem::Kind::Framing};
}  // namespace

std::size_t BodyReader::take_line(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  if (std::min(end, bytes.size()) + control_ > kControlMost) {
    problem_ = kBadChunk;
    return 0;
  }
  if (end == std::string_view::npos) {
    // What no line's end can follow will not get better.
    if (at_ == At::ChunkEnd && bytes != "\r") problem_ = kBadChunk;
    return 0;
  }
  const std::string_view line = bytes.substr(0, end == 0 ? 0 : end - 1);
  if (end == 0 || bytes[end - 1] != '\r' || has_controls(line)) {
    problem_ = kBadChunk;
    return 0;
  }
  switch (at_) {
    case At::ChunkSize:
      take_size(line);
      break;
    case At::ChunkEnd:
      if (!line.empty()) problem_ = kBadChunk;
      at_ = At::ChunkSize;
      break;
    default:  // trailers: whatever they say, it is too late for it
      control_ += end + 1;
      if (line.empty()) {
        at_ = At::End;
      } else if (!is_field(line)) {
        problem_ = kBadChunk;
      }
      break;
  }
  return problem_ ? 0 : end + 1;
}

/// Extensions mean nothing to us (7.1.1), but where they end: others might read a quoted one beyond its line.
void BodyReader::take_size(std::string_view line) {
  std::uint64_t size = 0;
  const auto [end, ec] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const std::string_view behind = line.substr(static_cast<std::size_t>(end - line.data()));
  const bool open = std::ranges::count(behind, '"') % 2 != 0 || behind.find('\\') != std::string_view::npos;
  if (ec != std::errc() || open || (!behind.empty() && !trimmed(behind).starts_with(';'))) {
    problem_ = kBadChunk;
  } else if (size > room_) {
    problem_ = kTooLarge;
  } else {
    room_ -= size;
    left_ = size;
    at_ = size == 0 ? At::Trailers : At::ChunkContent;
  }
}

}  // namespace wattle::net
