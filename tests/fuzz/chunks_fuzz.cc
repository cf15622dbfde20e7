// Chunks of answers: the reader that compares them with the last one says what reading each on its own says.
#include "fuzz.h"
#include "net/openai.h"
#include "net/sse_parser.h"

namespace wattle::fuzz {

namespace {
constexpr std::size_t kMaxEvent = 1024;

bool negative(const net::ChunkFacts& facts) {
  return facts.tokens < 0 || facts.completion_tokens < -1 || facts.prompt_tokens < -1 || facts.cached_tokens < -1 ||
         facts.reasoning_tokens < -1;
}

/// Of the events that `chunks` would pass over unread.
std::string broken_rule(const net::ChunkReader& chunks, std::string_view events) {
  const auto ahead = chunks.tokens_ahead(events);
  if (ahead.bytes > events.size()) return "more bytes are passed over than there are";
  net::SseParser alone(kMaxEvent);
  alone.feed(events.substr(0, ahead.bytes));
  std::int32_t tokens = 0;
  while (const auto event = alone.next()) {
    const auto facts = net::read_chunk(event->data);
    if (facts.tokens != 1 || facts.finished || facts.done || facts.error || facts.usage_only ||
        facts.prompt_tokens >= 0) {
      return "an event that says more than one token is passed over";
    }
    ++tokens;
  }
  if (alone.complete_bytes() != ahead.bytes && !alone.overflowed()) return "a part of an event is passed over";
  return tokens == ahead.tokens || alone.overflowed() ? "" : "another number of events is passed over than is said";
}
}  // namespace

std::vector<std::string> seeds() {
  const std::string head = R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":")";
  const std::string tail = "\"},\"finish_reason\":null}],\"usage\":null}\n\n";
  return {
      R"(data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})"
      "\n\n" +
          head + "a" + tail + head + "b\\\"" + tail + head + tail +
          R"(data: {"id":"c","choices":[{"index":0,"delta":{"content":"z"},"finish_reason":"stop"}]})"
          "\n\n"
          R"(data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}})"
          "\n\ndata: [DONE]\n\n",
      "data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: {\"choices\":[{\"text\":\"y\"}]}\n\ndata: "
      "{\"error\":{\"message\":\"gone\"}}\n\n",
      "data: "
      "{\"choices\":[{\"delta\":{\"reasoning\":\"x\"}},{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}"
      "]}}]}\n\n",
  };
}

Verdict parse(std::string_view input) {
  net::SseParser parser(kMaxEvent);
  net::ChunkReader chunks;
  parser.feed(input);
  bool any = false;
  while (const auto event = parser.next()) {
    if (!(chunks.read(event->data) == net::read_chunk(event->data)))
      return {true, "compared with the last it says something else"};
    for (const auto& facts : {net::read_chunk(event->data), net::read_typed_event(event->type, event->data),
                              net::read_usage(event->data)}) {
      if (negative(facts)) return {true, "a negative count was read"};
    }
    any = any || net::read_chunk(event->data).tokens > 0;
    if (std::string rule = broken_rule(chunks, parser.plain_rest()); !rule.empty()) return {true, std::move(rule)};
  }
  return {any, ""};
}

}  // namespace wattle::fuzz
