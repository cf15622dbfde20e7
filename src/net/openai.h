#pragma once
// The part of OpenAI's API that the gateway reads: the few request fields it acts on, error bodies, and the content of
// one chunk of a streamed answer. Bodies are passed on without being rebuilt. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
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
inline constexpr int kNestedMost = 64;  ///< levels of arrays and objects in a request's body
[[nodiscard]] ApiError too_deep();
/// JSON text of a value that may contain text from outside: bytes that are not UTF-8 are replaced; never throws.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& body);
[[nodiscard]] std::string error_json(const ApiError& error);
/// The same for statuses with which the HTTP server itself answers.
[[nodiscard]] std::string problem_json(int status, std::string_view what);

enum class ApiPath : std::uint8_t {
  Chat,
  Completions,
  Typed,  ///< OpenAI's responses and Anthropic's messages: texts in streams whose events have types
  Other,  ///< other POST paths of engines: embeddings, tokenize ...
};
[[nodiscard]] constexpr bool is_completion(ApiPath path) {
  return path == ApiPath::Chat || path == ApiPath::Completions;
}

/// A prompt before tokenisation.
struct PromptSize {
  std::int64_t ids = 0;    ///< tokens, exact
  std::int64_t bytes = 0;  ///< of text
  std::int64_t media = 0;  ///< images and other media, whose tokens only the engine knows
};

struct CompletionRequest {
  ApiPath path = ApiPath::Chat;
  std::string model;  ///< empty = not stated; not for completions
  bool stream = false;
  bool include_usage = false;  ///< the client's stream_options request it
  /// Position of a value in the body; size 0: absent.
  struct Place {
    std::size_t at = 0;
    std::size_t size = 0;
  };
  Place stream_options;
  Place prompt_text;      ///< `messages`, `prompt` or `input`
  std::string cache_key;  ///< prompt_cache_key: prompts with equal keys should share a cache; empty: not stated
  bool priority = false;  ///< the client states a priority
  std::int64_t n = 1;
  std::int64_t best_of = 1;     ///< answers that the engine computes to return n of them
  std::int32_t max_tokens = 0;  ///< 0 = not stated; a stated 0 counts as 1
  PromptSize prompt;
  std::int64_t prompts = 1;  ///< in the batch; completions only
  /// A field that says where an engine fetches KV (kv_transfer_params, bootstrap_*, disaggregated_params ...), which
  /// clients must not set. Empty = none.
  std::string reserved_field;
};

/// Reads a whole body, which must be one valid JSON object.
/// The body's capacity must exceed its size by RequestParser::kBodyPadding.
std::expected<CompletionRequest, ApiError> read_completion(ApiPath path, const std::string& body);

/// The content of one server-sent event.
struct ChunkFacts {
  /// Least number of tokens: texts (or reasoning, or tool arguments) of all choices in it, or one without text.
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

/// The same for the successive chunks of one stream. Most differ from the previous one only in the text of one token,
/// so the rest is compared instead of parsed again.
class ChunkReader {
 public:
  [[nodiscard]] ChunkFacts read(std::string_view data);
  /// How many events like the last (one token, one line ended by LF) these bytes begin with.
  struct Ahead {
    std::int32_t tokens = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] Ahead tokens_ahead(std::string_view events) const;

 private:
  [[nodiscard]] bool is_one_token(std::string_view data) const;

  // The last chunk that contained one text and nothing else of interest, as an event of one line; both parts include
  // the text's quotes.
  std::string before_;
  std::string behind_;
  bool one_line_ = false;  ///< it was an event of one line
  std::size_t head_ = 0;   ///< number of the chunk's first bytes that contain nothing of interest
};

/// The same for an event of OpenAI's responses or Anthropic's messages. `type`: the event's type; empty: it is in the
/// data.
[[nodiscard]] ChunkFacts read_typed_event(std::string_view type, std::string_view data);
/// The usage at the end of an answer that is not streamed: only the four counts.
[[nodiscard]] ChunkFacts read_usage(std::string_view json);

}  // namespace wattle::net
