// What real engines send (recorded; data/engine-transcripts) is read as what they say it is.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/file.h"
#include "net/openai.h"
#include "net/sse_parser.h"

namespace wattle::net {
namespace {

struct Stream {
  std::int64_t tokens = 0;
  int finished = 0;
  bool done = false;
  bool error = false;
  ChunkFacts usage;
};

Stream read_stream(std::string_view body) {
  Stream out;
  SseParser parser;
  parser.feed(body);
  while (const auto event = parser.next()) {
    const ChunkFacts facts = read_chunk(event->data);
    out.tokens += facts.tokens;
    out.finished += facts.finished ? 1 : 0;
    out.done = out.done || facts.done;
    out.error = out.error || facts.error;
    if (facts.completion_tokens >= 0) out.usage = facts;
  }
  return out;
}

/// Answers by "file name", of one file; curl's lines behind "## name".
std::map<std::string, std::string> answers_in(const std::string& path, const std::string& file) {
  std::map<std::string, std::string> out;
  const std::string all = read_file(path).value_or("");
  std::size_t at = all.starts_with("## ") ? 0 : all.find("\n## ");
  while (at != std::string::npos) {
    const std::size_t name = all.find("## ", at) + 3;
    const std::size_t end = all.find('\n', name);
    const std::size_t next = all.find("\n## ", end);
    std::string answer = all.substr(end + 1, next == std::string::npos ? next : next - end);
    std::erase(answer, '\r');
    out[file + " " + all.substr(name, end - name)] = std::move(answer);
    at = next;
  }
  return out;
}

TEST(Transcripts, TokensUsageAndEndsAreSeen) {
  const char* const data = std::getenv("WATTLE_DATA");
  if (data == nullptr) GTEST_SKIP() << "WATTLE_DATA is not set";
  int streams = 0;
  int wholes = 0;
  for (const char* file : {"raw-vllm.txt", "raw-llama.txt", "raw-dyn.txt"}) {
    const auto answers = answers_in(std::string(data) + "/engine-transcripts/" + file, file);
    EXPECT_GT(answers.size(), 10U) << file;
    for (const auto& [name, answer] : answers) {
      const std::size_t head = answer.find("\n\n");
      if (!answer.starts_with("HTTP/1.1 200") || head == std::string::npos) continue;
      const std::string body = answer.substr(head + 2);
      if (answer.find("text/event-stream") != std::string::npos) {
        ++streams;
        const Stream stream = read_stream(body);
        EXPECT_TRUE(stream.done) << name;
        EXPECT_FALSE(stream.error) << name;
        EXPECT_EQ(stream.finished, 1) << name;
        EXPECT_GT(stream.tokens, 0) << name;
        if (body.find("\"usage\":{") == std::string::npos) continue;
        EXPECT_LE(stream.tokens, stream.usage.completion_tokens) << name;
        EXPECT_GT(stream.usage.prompt_tokens, 0) << name;
        // vLLM sends a chunk without text where a token is no whole character yet, and completions open with one: what
        // was seen is at most one short, and the engine's own count is what is booked.
        EXPECT_GE(stream.tokens + 1, stream.usage.completion_tokens) << name;
      } else if (body.find("\"choices\"") != std::string::npos) {
        ++wholes;
        const ChunkFacts usage = read_usage(body);
        EXPECT_GT(usage.prompt_tokens, 0) << name;
        EXPECT_GT(usage.completion_tokens, 0) << name;
      }
    }
  }
  EXPECT_GE(streams, 12);
  EXPECT_GE(wholes, 10);
}

/// Whatever was read before: what is around a text is never taken for the text, nor the other way round.
TEST(ChunkReader, SaysOfEachChunkWhatIsSaidOfItAlone) {
  const std::vector<std::string> chunks{
      R"({"choices":[{"delta":{"content":"a"},"finish_reason":null}]})",
      R"({"choices":[{"delta":{"content":"longer, \\ and \"quoted\""},"finish_reason":null}]})",
      R"({"choices":[{"delta":{"content":"\\"},"finish_reason":null}]})",
      R"({"choices":[{"delta":{"content":""},"finish_reason":null}]})",
      R"({"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]})",
      R"({"choices":[{"delta":{"content":"a"},"finish_reason":null,"text":"b"},"finish_reason":null}]})",
      R"({"choices":[{"delta":{"content":"a","reasoning":"b"},"finish_reason":null}]})",
      R"({"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":{"completion_tokens":3}})",
      R"({"choices":[{"delta":{"content":"a"},"finish_reason":null}],"usage":{"completion_tokens":4}})",
      R"({"choices":[{"delta":{"content":"cut)",
      R"({"choices":[{"delta":{"content":"a"},"finish_reason":nul)",
      R"({"choices":[{"delta":{"role":"assistant","content":"a"},"finish_reason":null}]})",
      R"({"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]})",
      R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":17}})",
      R"({"text":"x"})",
      R"({"text":"x","text":"y"})",
      R"({"text":"x\"})",
      R"({"text""text":"x"})",
      R"({"text":"x"}"text":"y"})",
      R"({"error":{"message":"text"}})",
      "[DONE]",
      "",
      "\"",
  };
  for (const auto& first : chunks) {
    for (const auto& second : chunks) {
      ChunkReader reader;
      for (const auto& chunk : {first, second, first, second}) {
        const ChunkFacts facts = reader.read(chunk);
        const ChunkFacts alone = read_chunk(chunk);
        EXPECT_EQ(facts, alone) << first << "\n" << second;
      }
    }
  }
}

/// What a stream says, fed in pieces of `size` bytes; `ahead`: as it is relayed, or event by event.
struct Seen {
  std::int64_t tokens = 0;
  int others = 0;
  int skipped = 0;  ///< events nobody looked at on their own
  std::vector<std::size_t> complete;
  ChunkFacts last;
};
Seen seen_of(std::string_view stream, std::size_t size, bool ahead) {
  Seen out;
  SseParser parser;
  ChunkReader chunks;
  for (; !stream.empty(); stream.remove_prefix(std::min(size, stream.size()))) {
    parser.feed(stream.substr(0, size));
    for (;;) {
      const auto same = ahead ? chunks.tokens_ahead(parser.plain_rest()) : ChunkReader::Ahead{};
      parser.pass(same.bytes);
      out.tokens += same.tokens;
      out.skipped += same.tokens;
      const auto event = parser.next();
      if (!event) break;
      const ChunkFacts facts = chunks.read(event->data);
      out.tokens += facts.tokens;
      if (facts.tokens == 0) ++out.others;
      if (facts.tokens == 0) out.last = facts;
    }
    out.complete.push_back(parser.complete_bytes());
  }
  return out;
}

TEST(ChunkReader, EventsPassedOverAreThoseThatSayOneToken) {
  const auto token = [](const std::string& text) {
    return R"({"choices":[{"delta":{"content":")" + text + R"("},"finish_reason":null}]})";
  };
  const std::string usage = R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":17}})";
  const auto line = [](const std::string& data) { return "data: " + data + "\n\n"; };
  const std::string start = line(token("a"));
  for (const std::string& middle : std::vector<std::string>{
           line(token("b")) + line(token("\\\"c\\\"")) + line(token("d\\\\")), line(token("")) + line(token("b")),
           line(token("b") + " "), line(token("b\", \"text\": \"c")),
           line(R"({"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]})") + line(token("b")),
           line(usage) + line(token("b")), "event: error\n" + line(token("b")), ": ping\n\n" + line(token("b")),
           "data: " + token("b") + "\r\n\r\n" + line(token("b")),
           "data: " + token("b") + "\ndata: c\n\n" + line(token("b")), "data: " + token("b\n\nc") + "\n\n",
           "data: " + token("b\\\nc") + "\n\n", "data:" + token("b") + "\n\n",
           "data: {\"choices\":[{\"delta\":{\ndata: \"content\":\"b\"},\"finish_reason\":null}]}\n\n" +
               line(token("b")),
           line(token(std::string(300, 'x')))}) {
    const std::string stream = start + start + middle + start + line("[DONE]");
    for (std::size_t size = 1; size <= stream.size(); ++size) {
      const Seen one = seen_of(stream, size, false);
      const Seen all = seen_of(stream, size, true);
      EXPECT_EQ(all.tokens, one.tokens) << middle << size;
      EXPECT_EQ(all.others, one.others) << middle << size;
      EXPECT_EQ(all.complete, one.complete) << middle << size;
      EXPECT_EQ(all.last, one.last) << middle << size;
    }
    EXPECT_GT(seen_of(stream, stream.size(), true).skipped, 0) << middle;
  }
}

}  // namespace
}  // namespace wattle::net
