// Server-sent events: any bytes are a stream, so the rule is that the chunking does not matter.
#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/random.h"
#include "fuzz.h"
#include "net/sse_parser.h"

namespace wattle::fuzz {

namespace {
constexpr std::size_t kMaxEvent = 256;
using Events = std::vector<std::pair<std::string, std::string>>;

/// The events of the input fed in chunks of 1 to `largest` bytes; sets `overflowed`.
Events events_of(std::string_view input, std::size_t largest, std::uint64_t seed, bool& overflowed) {
  net::SseParser parser(kMaxEvent);
  RandomStream random(seed, "chunks");
  Events events;
  while (!input.empty() && !parser.overflowed()) {
    const std::size_t size = std::min(input.size(), static_cast<std::size_t>(random.below(largest)) + 1);
    parser.feed(input.substr(0, size));
    while (const auto event = parser.next()) events.emplace_back(event->type, event->data);
    if (parser.complete_bytes() > size) return {{"more bytes complete than were fed", ""}};
    input.remove_prefix(size);
  }
  overflowed = parser.overflowed();
  return events;
}
}  // namespace

std::vector<std::string> seeds() {
  return {"data: {\"id\":1}\n\ndata: {\"id\":2}\n\ndata: [DONE]\n\n",
          ": ping\r\nevent: error\r\ndata: a\r\ndata: b\r\n\r\nid: 7\rdata: c\r\r",
          "\xef\xbb\xbf"
          "data\n\nretry: 5\n\ndata:x\n\n"};
}

Verdict parse(std::string_view input) {
  Digest digest;
  digest.add_text(input);
  bool whole_overflowed = false;
  bool bytewise_overflowed = false;
  bool chunked_overflowed = false;
  const Events bytewise = events_of(input, 1, 0, bytewise_overflowed);
  const Events chunked = events_of(input, 16, digest.value(), chunked_overflowed);
  net::SseParser parser(kMaxEvent);
  Events whole;
  parser.feed(input);
  while (const auto event = parser.next()) whole.emplace_back(event->type, event->data);
  whole_overflowed = parser.overflowed();
  if (!whole_overflowed && !bytewise_overflowed && !chunked_overflowed) {
    if (bytewise != whole) return {true, "fed byte by byte, other events come out"};
    if (chunked != whole) return {true, "fed in chunks, other events come out"};
  }
  for (const auto& [type, data] : whole) {
    if (data.find('\r') != std::string::npos || type.find('\n') != std::string::npos) {
      return {true, "a line end got into a field"};
    }
    if (data.size() > input.size()) return {true, "an event is longer than the stream"};
  }
  return {!whole.empty(), ""};
}

}  // namespace wattle::fuzz
