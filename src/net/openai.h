#pragma once
// The part of OpenAI's API that the gateway reads: the few request fields it acts on, error bodies, and what one chunk
// of a streamed answer says. Bodies are never rebuilt on the way through. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace wattle::net {

/// An error as OpenAI clients expect it: {"error":{message,type,param,code}}.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  ///< empty = null
  std::string code;   ///< empty = null
};
[[nodiscard]] std::string error_json(const ApiError& error);
/// The same for statuses the HTTP server itself answers with.
[[nodiscard]] std::string problem_json(int status, std::string_view what);

enum class ApiPath : std::uint8_t { Chat, Completions };

struct CompletionRequest {
  ApiPath path = ApiPath::Chat;
  std::string model;
  bool stream = false;
  bool stream_options = false;  ///< the client says itself what its stream reports
  std::int64_t n = 1;
  std::int32_t max_tokens = 0;  ///< 0 = not said
  /// Prompt length before tokenisation: exact for a prompt of token ids, else one token per four bytes of text.
  std::int32_t prompt_tokens = 0;
  std::int64_t prompts = 1;  ///< in the batch; completions only
  /// A field that says where an engine fetches KV (kv_transfer_params, bootstrap_*, disaggregated_params ...): never a
  /// client's to set. Empty = none.
  std::string reserved_field;
};

/// Reads a body whole (it must be one valid JSON object). The body's capacity must exceed its size by
/// RequestParser::kBodyPadding.
std::expected<CompletionRequest, ApiError> read_completion(ApiPath path, const std::string& body);

/// What the data of one server-sent event says.
struct ChunkFacts {
  /// At least so many: texts (or reasoning, or tool arguments) of all choices in it, or one without text.
  std::int32_t tokens = 0;
  bool done = false;  ///< the closing [DONE]
  bool error = false;
  bool usage_only = false;  ///< no choices, only the closing usage block
  // From its usage block; -1 = none.
  std::int32_t completion_tokens = -1;
  std::int32_t prompt_tokens = -1;
  std::int32_t cached_tokens = -1;
};
[[nodiscard]] ChunkFacts read_chunk(std::string_view data);

/// Integer after `"key":` in JSON text; -1 when absent. The key is found as text: quotes inside JSON strings are
/// escaped, so it cannot be confused with content.
[[nodiscard]] std::int64_t integer_after(std::string_view json, std::string_view quoted_key);

}  // namespace wattle::net
