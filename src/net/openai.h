#pragma once
// The part of OpenAI's API that the gateway reads: the few request fields it acts on, error bodies, and what one chunk
// of a streamed answer says. Bodies are never rebuilt on the way through. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
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
/// JSON text of what may hold names from outside: bytes that are not UTF-8 are replaced, never an exception.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& body);
[[nodiscard]] std::string error_json(const ApiError& error);
/// The same for statuses the HTTP server itself answers with.
[[nodiscard]] std::string problem_json(int status, std::string_view what);

enum class ApiPath : std::uint8_t {
  Chat,
  Completions,
  Typed,  ///< OpenAI's responses and Anthropic's messages: texts, too, in streams whose events have types
  Other,  ///< whatever else engines answer to POST: embeddings, tokenize ...
};
[[nodiscard]] constexpr bool is_completion(ApiPath path) {
  return path == ApiPath::Chat || path == ApiPath::Completions;
}

/// A prompt before tokenisation.
struct PromptSize {
  std::int64_t ids = 0;    ///< tokens, exact
  std::int64_t bytes = 0;  ///< of text
  std::int64_t media = 0;  ///< images and the like: what they cost is the engine's to say
};

struct CompletionRequest {
  ApiPath path = ApiPath::Chat;
  std::string model;  ///< empty = not said; not of completions
  bool stream = false;
  bool include_usage = false;  ///< the client's stream_options ask for it
  /// Where in the body a value stands; of size 0: it has none.
  struct Place {
    std::size_t at = 0;
    std::size_t size = 0;
  };
  Place stream_options;
  Place prompt_text;      ///< `messages`, `prompt` or `input`
  std::string cache_key;  ///< prompt_cache_key: what the client wants prompts to share a cache by; empty: not said
  bool priority = false;  ///< the client says itself how urgent it is
  std::int64_t n = 1;
  std::int32_t max_tokens = 0;  ///< 0 = not said; what asks for none is taken to ask for one
  PromptSize prompt;
  std::int64_t prompts = 1;  ///< in the batch; completions only
  /// A field that says where an engine fetches KV (kv_transfer_params, bootstrap_*, disaggregated_params ...): never a
  /// client's to set. Empty = none.
  std::string reserved_field;
};

/// Reads a body whole: it must be one valid JSON object.
/// The body's capacity must exceed its size by RequestParser::kBodyPadding.
std::expected<CompletionRequest, ApiError> read_completion(ApiPath path, const std::string& body);

/// What the data of one server-sent event says.
struct ChunkFacts {
  /// At least so many: texts (or reasoning, or tool arguments) of all choices in it, or one without text.
  std::int32_t tokens = 0;
  bool done = false;      ///< the closing [DONE], or another API's last event
  bool finished = false;  ///< it says why a choice ended
  bool error = false;
  bool usage_only = false;  ///< no choices, only the closing usage block
  // From its usage block; -1 = none.
  std::int32_t completion_tokens = -1;
  std::int32_t prompt_tokens = -1;
  std::int32_t cached_tokens = -1;
  std::int32_t reasoning_tokens = -1;

  friend bool operator==(const ChunkFacts&, const ChunkFacts&) = default;
};
[[nodiscard]] ChunkFacts read_chunk(std::string_view data);

/// The same, of one stream's chunks in turn. Most differ from the last in nothing but the text of one token: what is
/// around it is compared, not read again.
class ChunkReader {
 public:
  [[nodiscard]] ChunkFacts read(std::string_view data);
  /// How many events such as the last, of one token each and of one line that LF ends, these bytes begin with.
  struct Ahead {
    std::int32_t tokens = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Ahead tokens_ahead(std::string_view events) const;

 private:
  [[nodiscard]] bool is_one_token(std::string_view data) const;

  // The last chunk with one text and nothing else that is looked for, as an event of one line; both with that text's
  // quotes.
  std::string before_;
  std::string behind_;
  bool one_line_ = false;  ///< it came as one
  std::size_t head_ = 0;   ///< so many of the chunk's first bytes say nothing that is looked for
};

/// The same of an event of OpenAI's responses or Anthropic's messages. `type` says what it is; empty: its data do.
[[nodiscard]] ChunkFacts read_typed_event(std::string_view type, std::string_view data);
/// What the end of a whole answer says of its usage: only the four counts.
[[nodiscard]] ChunkFacts read_usage(std::string_view json);

}  // namespace wattle::net
