#include "testbed/transcript.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "net/openai.h"
#include "net/sse_parser.h"
#include "testbed/mock_dialect.h"

namespace wattle::testbed {
namespace {

std::optional<Transcript> recorded(const std::string& engine) {
  const char* data = std::getenv("WATTLE_DATA");
  if (data == nullptr) return std::nullopt;
  const std::string file = std::string(data) + "/engine-transcripts/raw-" + engine + ".txt";
  const auto text = read_file(file);
  if (!text) return std::nullopt;
  auto transcript = Transcript::read(*text, file);
  EXPECT_TRUE(transcript) << transcript.error().message();
  return *transcript;
}

struct Stream {
  std::int32_t tokens = 0;
  std::int32_t events = 0;
  std::int32_t usage = -1;
  bool done = false;
  std::vector<nlohmann::json> chunks;
};

Stream read_stream(std::string_view body) {
  Stream read;
  net::SseParser parser;
  parser.feed(body);
  while (const auto event = parser.next()) {
    ++read.events;
    const auto facts = net::read_chunk(event->data);
    read.tokens += facts.tokens;
    read.done = read.done || facts.done;
    if (facts.completion_tokens >= 0) read.usage = facts.completion_tokens;
    if (!facts.done) read.chunks.push_back(nlohmann::json::parse(event->data));
  }
  return read;
}

TEST(Transcript, EveryEnginesStreamsAreCountedAsTheEngineCountsThem) {
  for (const std::string engine : {"vllm", "llama", "dyn"}) {
    const auto transcript = recorded(engine);
    if (!transcript) GTEST_SKIP() << "needs WATTLE_DATA";
    EXPECT_GE(transcript->size(), 17U) << engine;
    for (const char* name : {"chat-stream-usage", "chat-stream-nousage", "chat-stream-contusage", "compl-stream"}) {
      const auto* answer = transcript->find(name);
      ASSERT_NE(answer, nullptr) << engine << " " << name;
      const Stream stream = read_stream(answer->body);
      EXPECT_TRUE(stream.done) << engine << " " << name;
      if (stream.usage >= 0) {
        EXPECT_EQ(stream.tokens, stream.usage) << engine << " " << name;
      }
    }
  }
}

TEST(Transcript, IsFoundByTheKindOfRequest) {
  const auto is = [](const char* body, const char* path = "/v1/chat/completions") {
    return section_of("POST", path, body);
  };
  EXPECT_EQ(is("{"), "err-json");
  EXPECT_EQ(is(R"({"model":"tiny"})"), "err-nomsg");
  EXPECT_EQ(is(R"({"model":"nope","messages":[]})"), "err-model");
  EXPECT_EQ(is(R"({"model":"tiny","messages":[],"stream":true})"), "chat-stream-nousage");
  EXPECT_EQ(is(R"({"messages":[],"stream":true,"stream_options":{"include_usage":true}})"), "chat-stream-usage");
  EXPECT_EQ(is(R"({"messages":[],"max_tokens":-1})"), "err-neg");
  EXPECT_EQ(is(R"({"messages":[],"n":2})"), "n2");
  EXPECT_EQ(is(R"({"prompt":[1,2]})", "/v1/completions"), "compl-ids-rid");
  EXPECT_EQ(is("{}", "/nowhere"), "err-path");
  EXPECT_EQ(section_of("GET", "/v1/completions", ""), "err-method");
}

TEST(Transcript, WhatIsNoneIsRefused) {
  EXPECT_FALSE(Transcript::read("", "f"));
  EXPECT_FALSE(Transcript::read("## health\nnonsense\n", "f"));
  const auto one =
      Transcript::read("## a\nHTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Length: 2\n\nhi\n## tool\n\n", "f");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->size(), 1U) << "what was not answered is left out";
  EXPECT_EQ(one->find("a")->body, "hi");
}

/// Names of members with the kinds of their values; texts and numbers are whatever they are.
nlohmann::json shape_of(const nlohmann::json& value) {
  if (value.is_object()) {
    auto shape = nlohmann::json::object();
    for (const auto& [key, inner] : value.items()) shape[key] = shape_of(inner);
    return shape;
  }
  if (value.is_array()) {
    auto shape = nlohmann::json::array();
    for (const auto& inner : value) shape.push_back(shape_of(inner));
    return shape;
  }
  return value.type_name();
}

/// Every member of `ours` is in `theirs` with the same type; nulls and further members of `theirs` are ignored.
void expect_within(const nlohmann::json& ours, const nlohmann::json& theirs, const std::string& where) {
  if (ours.is_object()) {
    ASSERT_TRUE(theirs.is_object()) << where << ": " << theirs;
    for (const auto& [key, inner] : ours.items()) {
      if (inner == "null" || key == "logprobs") continue;
      ASSERT_TRUE(theirs.contains(key)) << where << " has no " << key << ": " << theirs;
      expect_within(inner, theirs[key], where + "." + key);
    }
  } else if (ours.is_array()) {
    ASSERT_TRUE(theirs.is_array() && theirs.size() == ours.size()) << where << ": " << theirs;
    for (std::size_t i = 0; i < ours.size(); ++i) expect_within(ours[i], theirs[i], where + "[]");
  } else {
    EXPECT_EQ(ours, theirs) << where;
  }
}

TEST(Wording, IsShapedAsTheRecordedEngines) {
  for (const auto& [engine, dialect] : {std::pair("vllm", Dialect::Vllm), std::pair("llama", Dialect::LlamaCpp)}) {
    const auto transcript = recorded(engine);
    if (!transcript) GTEST_SKIP() << "needs WATTLE_DATA";
    for (const bool chat : {true, false}) {
      const Stream theirs = read_stream(transcript->find(chat ? "chat-stream-usage" : "compl-stream")->body);
      const Wording words(dialect, chat, "id", "tiny", 7);
      const std::int32_t tokens = theirs.usage;
      std::string ours = words.opening();
      for (std::int32_t t = 1; t <= tokens; ++t) ours += words.token(" watt", t == tokens ? "length" : nullptr);
      const Usage usage{5, tokens};
      const bool apart = chat || dialect == Dialect::Vllm;  // llama.cpp's completions have it with the finish reason
      ours += words.end_of(0, "length") + words.closing(apart ? &usage : nullptr);
      const Stream mine = read_stream(ours);
      ASSERT_EQ(mine.chunks.size(), theirs.chunks.size()) << engine << ours;
      EXPECT_EQ(mine.tokens, theirs.tokens) << engine;
      EXPECT_TRUE(mine.done);
      for (std::size_t i = 0; i < mine.chunks.size(); ++i) {
        expect_within(shape_of(mine.chunks[i]), shape_of(theirs.chunks[i]),
                      std::string(engine) + (chat ? " chat" : " text"));
      }
    }
    for (const auto& [name, error] : {std::pair("err-model", MockError{404, "m", "model"}),
                                      std::pair("err-neg", MockError{400, "m", "max_tokens"})}) {
      const auto theirs = nlohmann::json::parse(transcript->find(name)->body);
      expect_within(shape_of(nlohmann::json::parse(error_body(dialect, error))), shape_of(theirs), name);
    }
    for (const bool known : {true, false}) {
      const auto* theirs = transcript->find(known ? "err-method" : "err-path");
      const MockError error = no_route(dialect, known);
      EXPECT_EQ(error.status, theirs->status) << engine;
      expect_within(shape_of(nlohmann::json::parse(no_route_body(dialect, error))),
                    shape_of(nlohmann::json::parse(theirs->body)), known ? "method" : "path");
    }
  }
}

TEST(Wording, ADeadEngineCoreIsAnErrorEventAndWithVllmTheClosingOneToo) {
  for (const auto dialect : {Dialect::Vllm, Dialect::LlamaCpp, Dialect::Sglang}) {
    const std::string events = Wording(dialect, true, "id", "m", 1).broken("it died");
    net::SseParser parser;
    parser.feed(events);
    const auto first = parser.next();
    ASSERT_TRUE(first);
    EXPECT_TRUE(net::read_chunk(first->data).error) << first->data;
    EXPECT_EQ(parser.next().has_value(), dialect != Dialect::LlamaCpp);
  }
}

}  // namespace
}  // namespace wattle::testbed
