// An OpenAI-compatible engine that answers at once with a fixed text: the upstream of the client test and of the
// gateway benchmark, where the engine must not be what is measured. Prints its port; ends on SIGTERM or when its stdin
// is closed.
#include <fmt/core.h>

#include <unistd.h>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "net/openai.h"
#include "net/server.h"

namespace {

using namespace wattle::net;  // NOLINT: a main program of its own

struct Answers {
  std::string whole_chat, whole_text, events_chat, events_text, events_usage;

  explicit Answers(int tokens) {
    const std::string usage =
        fmt::format(R"("usage":{{"prompt_tokens":7,"completion_tokens":{},"total_tokens":{}}})", tokens, tokens + 7);
    const std::string chat_head = R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",)";
    const std::string text_head = R"({"id":"cmpl-1","object":"text_completion","created":1,"model":"m",)";
    std::string text;
    events_chat = "data: " + chat_head +
                  R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})"
                  "\n\n";
    for (int i = 0; i < tokens; ++i) {
      text += " hi";
      events_chat += "data: " + chat_head +
                     R"("choices":[{"index":0,"delta":{"content":" hi"},"finish_reason":null}]})"
                     "\n\n";
      events_text += "data: " + text_head +
                     R"("choices":[{"index":0,"text":" hi","finish_reason":null}]})"
                     "\n\n";
    }
    events_chat += "data: " + chat_head +
                   R"("choices":[{"index":0,"delta":{},"finish_reason":"length"}]})"
                   "\n\n";
    events_text += "data: " + text_head +
                   R"("choices":[{"index":0,"text":"","finish_reason":"length"}]})"
                   "\n\n";
    events_usage = "data: " + chat_head + R"("choices":[],)" + usage + "}\n\n";
    whole_chat = R"({"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,)"
                 R"("message":{"role":"assistant","content":")" +
                 text + R"("},"finish_reason":"length"}],)" + usage + "}";
    whole_text = R"({"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":")" +
                 text + R"(","finish_reason":"length"}],)" + usage + "}";
  }
};

void answer(Exchange& exchange, const Answers& canned) {
  if (exchange.path() == "/health") return exchange.respond(200, "text/plain", "ok");
  if (exchange.path() == "/v1/models") {  // some routers ask what a worker has
    return exchange.respond(200, "application/json",
                            R"({"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]})");
  }
  const bool chat = exchange.path() == "/v1/chat/completions";
  const auto asked = read_completion(chat ? ApiPath::Chat : ApiPath::Completions, exchange.body());
  if (!asked) return exchange.respond(asked.error().status, "application/json", error_json(asked.error()));
  if (!asked->stream) return exchange.respond(200, "application/json", chat ? canned.whole_chat : canned.whole_text);
  exchange.begin(200, "text/event-stream");
  exchange.write(chat ? canned.events_chat : canned.events_text);
  if (exchange.body().find("\"include_usage\"") != std::string::npos) exchange.write(canned.events_usage);
  exchange.write("data: [DONE]\n\n");
  exchange.finish();
}

}  // namespace

int main(int argc, char** argv) {
  int tokens = 16;
  ServerOptions options;
  int threads = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    const std::string_view text = argv[i + 1];
    int value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return 2;
    if (flag == "--tokens") tokens = value;
    if (flag == "--port") options.port = static_cast<std::uint16_t>(value);
    if (flag == "--threads") threads = value;
  }
  std::signal(SIGPIPE, SIG_IGN);
  const Answers canned(tokens);
  LoopPool pool(threads);
  auto server =
      HttpServer::listen(pool, options, [&canned](std::shared_ptr<Exchange> exchange) { answer(*exchange, canned); });
  if (!server) {
    fmt::print(stderr, "{}\n", server.error().message());
    return 3;
  }
  fmt::print("{}\n", (*server)->port());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
