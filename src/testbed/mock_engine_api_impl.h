#pragma once
// Private to MockApi: one request, and what its parts answer with.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "testbed/mock_engine_api.h"
#include "testbed/mock_reply.h"

namespace wattle::testbed {

/// Whole number under a key, `missing` where there is none; -1 when it is something else or below 1.
std::int64_t positive(const nlohmann::json& body, const char* key, std::int64_t missing);
bool flag(const nlohmann::json& body, const char* key);
/// Text under a key, empty where there is none or null; nothing when it is something else.
std::optional<std::string> text_under(const nlohmann::json& body, const char* key);

/// One prompt from its body to its last byte.
struct MockApi::Completion {
  std::shared_ptr<net::Exchange> exchange;
  engine::Tag tag = 0;
  std::string id;
  std::string request_id;
  bool chat = false;
  std::shared_ptr<MockReply> reply;
  std::size_t choice = 0;
  bool gone = false;
  bool to_be_pulled = false;  ///< prefill leg: its KV waits for the decode instance
  bool kv_ready = false;
  std::int32_t prompt = 0;
  std::int32_t cached = 0;  ///< of the prompt
  PromptContent content;
  std::int32_t output = 0;
  std::int32_t max_tokens = 0;
  std::int32_t sent = 0;
  Instant arrival;
  Instant last;
  std::string pull_host;
  std::uint16_t pull_port = 0;
  std::string pull_id;
  std::string pull_body;
  std::string room;  ///< SGLang's contract: where both legs meet

  [[nodiscard]] const char* finish_reason() const { return output >= max_tokens ? "length" : "stop"; }
  [[nodiscard]] Usage usage() const { return {prompt, sent, cached}; }
};

}  // namespace wattle::testbed
