// What a streamed token costs between the socket and the client: finding the event, and reading what it says.
#include "net/sse_parser.h"

#include <benchmark/benchmark.h>

#include <string>

#include "net/openai.h"

namespace wattle::net {
namespace {

/// As vLLM 0.32 sends a token.
const std::string kEvent =
    R"(data: {"id":"chatcmpl-924b1918251b6c0e","object":"chat.completion.chunk","created":1795331408,"model":"tiny",)"
    R"("choices":[{"index":0,"delta":{"content":" Axis"},"logprobs":null,"finish_reason":null,"token_ids":null}]})"
    "\n\n";

void find_event(benchmark::State& state) {
  SseParser parser;
  for (auto _ : state) {
    parser.feed(kEvent);
    while (const auto event = parser.next()) benchmark::DoNotOptimize(event->data.data());
  }
}
BENCHMARK(find_event);

void read_event(benchmark::State& state) {
  const std::string_view data = std::string_view(kEvent).substr(6, kEvent.size() - 8);
  for (auto _ : state) benchmark::DoNotOptimize(read_chunk(data));
}
BENCHMARK(read_event);

}  // namespace
}  // namespace wattle::net
