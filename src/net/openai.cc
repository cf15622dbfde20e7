#include "net/openai.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "net/http_parser.h"

namespace wattle::net {

namespace {

namespace od = simdjson::ondemand;
using simdjson::SUCCESS;

constexpr int kDepthMax = 64;

/// Fields by which two engines find each other's KV: vLLM's and SGLang's, TensorRT-LLM's, the encoder's.
bool is_reserved(std::string_view key) {
  return key == "kv_transfer_params" || key == "ec_transfer_params" || key == "disaggregated_params" ||
         key.starts_with("bootstrap_") || key == "disagg_prefill_dp_rank";
}

/// Objects and strings below these keys are images, sound, files: no text.
bool holds_media(std::string_view key) {
  constexpr std::array<std::string_view, 9> kMedia{"image_url", "input_audio", "audio_url", "video_url", "image",
                                                   "file",      "file_data",   "source",    "audio"};
  return std::ranges::find(kMedia, key) != kMedia.end();
}

/// Walks a value to its end, so that all of it has been parsed, and measures it.
struct Measure {
  std::int64_t string_bytes = 0;
  std::int64_t numbers = 0;
  std::int64_t media = 0;
  std::int64_t items = 0;  ///< strings and arrays right below the top
  std::string reserved;    ///< key of an object at the top that is the gateway's alone

  simdjson::error_code walk(od::value value, int depth) {
    if (depth > kDepthMax) return simdjson::DEPTH_ERROR;
    od::json_type type{};
    if (const auto e = value.type().get(type)) return e;
    if (depth == 1 && (type == od::json_type::string || type == od::json_type::array)) ++items;
    switch (type) {
      case od::json_type::array: {
        od::array array;
        if (const auto e = value.get_array().get(array)) return e;
        for (auto item : array) {
          od::value inner;
          if (const auto e = std::move(item).get(inner)) return e;
          if (const auto e = walk(inner, depth + 1)) return e;
        }
        return SUCCESS;
      }
      case od::json_type::object: {
        od::object object;
        if (const auto e = value.get_object().get(object)) return e;
        for (auto item : object) {
          od::field field;
          if (const auto e = std::move(item).get(field)) return e;
          std::string_view key;
          if (const auto e = field.unescaped_key().get(key)) return e;
          if (depth == 0 && is_reserved(key)) reserved = key;
          const bool is_media = holds_media(key);
          const std::int64_t bytes = string_bytes;
          if (const auto e = walk(field.value(), depth + 1)) return e;
          if (!is_media) continue;
          if (string_bytes > bytes) ++media;
          string_bytes = bytes;
        }
        return SUCCESS;
      }
      case od::json_type::string: {
        std::string_view text;
        const auto e = value.get_string().get(text);
        if (e) return e;
        if (text.starts_with("data:") && text.substr(0, 256).find(";base64,") != std::string_view::npos) {
          ++media;
        } else {
          string_bytes += static_cast<std::int64_t>(text.size());
        }
        return e;
      }
      case od::json_type::number: {
        if (depth > 0) ++numbers;  // token ids come in arrays
        double number = 0;
        return value.get_double().get(number);
      }
      case od::json_type::boolean: {
        bool flag = false;
        return value.get_bool().get(flag);
      }
      case od::json_type::null: {
        bool null = false;
        const auto e = value.is_null().get(null);
        return e ? e : (null ? SUCCESS : simdjson::N_ATOM_ERROR);
      }
    }
    return simdjson::TAPE_ERROR;
  }
};

ApiError wrong(std::string_view param, std::string_view what) {
  ApiError error;
  error.param = param;
  error.message = std::string(param) + " " + std::string(what);
  return error;
}

ApiError not_json() {
  ApiError error;
  error.message = "the request body is not a valid JSON object";
  error.code = "invalid_json";
  return error;
}

bool is_null(od::value& value) {
  od::json_type type{};
  return !value.type().get(type) && type == od::json_type::null;
}

}  // namespace

std::string error_json(const ApiError& error) {
  nlohmann::ordered_json body;
  auto& inner = body["error"];
  inner["message"] = error.message;
  inner["type"] = error.type;
  inner["param"] = error.param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param);
  inner["code"] = error.code.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.code);
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string problem_json(int status, std::string_view what) {
  ApiError error;
  error.status = status;
  if (status >= 500) error.type = "server_error";
  error.message = what;
  return error_json(error);
}

namespace {

/// What to do with a body's keys one after the other.
class CompletionReader {
 public:
  CompletionReader(ApiPath path, const std::string& body)
      : body_(body), prompt_key_(path == ApiPath::Chat ? "messages" : "prompt") {
    out_.path = path;
  }
  std::expected<CompletionRequest, ApiError> read() {
    static_assert(RequestParser::kBodyPadding >= simdjson::SIMDJSON_PADDING);
    thread_local od::parser parser;
    od::document document;
    od::object object;
    const bool padded = body_.capacity() >= body_.size() + simdjson::SIMDJSON_PADDING;
    if (body_.empty() || !padded || parser.iterate(body_.data(), body_.size(), body_.capacity()).get(document) ||
        document.get_object().get(object)) {
      return std::unexpected(not_json());
    }
    for (auto item : object) {
      od::field field;
      std::string_view key;
      if (std::move(item).get(field) || field.unescaped_key().get(key)) return std::unexpected(not_json());
      od::value value = field.value();
      if (auto problem = take(key, value, document)) return std::unexpected(*problem);
    }
    const char* beyond = nullptr;
    if (document.current_location().get(beyond) == SUCCESS) return std::unexpected(not_json());  // more than one value
    if (out_.path == ApiPath::Other) {  // whatever text it has is taken for prompt
      out_.prompt = {prompt_.numbers + rest_.numbers, prompt_.string_bytes + rest_.string_bytes,
                     prompt_.media + rest_.media};
      return std::move(out_);
    }
    if (!has_model_) return std::unexpected(wrong("model", "is required"));
    if (!has_prompt_) return std::unexpected(wrong(prompt_key_, "is required"));
    if (out_.path == ApiPath::Completions) out_.prompts = std::max<std::int64_t>(prompt_.items, 1);
    out_.prompt = {prompt_.numbers, prompt_.string_bytes, prompt_.media};
    return std::move(out_);
  }

 private:
  using Problem = std::optional<ApiError>;

  Problem take(std::string_view key, od::value& value, od::document& document) {
    const bool is_prompt = key == prompt_key_ || (out_.path == ApiPath::Other && (key == "messages" || key == "input"));
    const char* const begins = is_prompt ? value.raw_json_token().data() : nullptr;
    auto problem = take(key, value);
    const char* behind = nullptr;
    if (begins == nullptr || problem || document.current_location().get(behind) != SUCCESS) return problem;
    out_.prompt_text = {static_cast<std::size_t>(begins - body_.data()), static_cast<std::size_t>(behind - begins)};
    return problem;
  }
  Problem take(std::string_view key, od::value& value) {
    if (key == "model") {
      std::string_view model;
      if (value.get_string().get(model)) return wrong("model", "must be a string");
      out_.model = model;
      has_model_ = true;
      return {};
    }
    if (key == "stream" && !is_null(value)) {
      return value.get_bool().get(out_.stream) ? Problem(wrong("stream", "must be true or false")) : Problem();
    }
    if (out_.path == ApiPath::Other) {
      std::int64_t most = 0;
      const bool cap = key == "max_tokens" || key == "max_output_tokens";
      if (!cap || value.get_int64().get(most)) return take_any(key, value);
      out_.max_tokens = static_cast<std::int32_t>(std::clamp<std::int64_t>(most, 0, 1 << 30));
      return {};
    }
    if (key == prompt_key_) return take_prompt(value);
    if (key == "stream_options") return take_stream_options(value);
    if (key == "n" && !is_null(value)) {
      return value.get_int64().get(out_.n) || out_.n < 1 ? Problem(wrong("n", "must be a positive integer"))
                                                         : Problem();
    }
    if ((key == "max_tokens" || key == "max_completion_tokens") && !is_null(value)) {
      const bool wins = key == "max_completion_tokens" || out_.max_tokens == 0;
      // Completions may ask for none: the prompt's own tokens, with `echo`.
      const std::int64_t least = out_.path == ApiPath::Completions && key == "max_tokens" ? 0 : 1;
      constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
      std::int64_t tokens = 0;
      if (value.get_int64().get(tokens) || tokens < least || tokens > kMost) {
        return wrong(key, "must be an integer from " + std::to_string(least) + " to " + std::to_string(kMost));
      }
      if (wins) out_.max_tokens = static_cast<std::int32_t>(std::max<std::int64_t>(tokens, 1));
      return {};
    }
    return take_any(key, value);
  }
  Problem take_any(std::string_view key, od::value& value) {
    if (is_reserved(key)) out_.reserved_field = key;
    if (key == "priority") out_.priority = true;
    if (key == "prompt_cache_key") return take_cache_key(value);
    const bool passed_on = key == "vllm_xargs";  // vLLM merges these into the same map
    if (rest_.walk(value, 0)) return not_json();
    if (passed_on && !rest_.reserved.empty()) out_.reserved_field = rest_.reserved;
    rest_.reserved.clear();
    return {};
  }
  Problem take_cache_key(od::value& value) {
    std::string_view text;
    od::json_type type{};
    if (value.type().get(type)) return not_json();
    if (type != od::json_type::string) return rest_.walk(value, 0) ? Problem(not_json()) : Problem();
    if (value.get_string().get(text)) return not_json();
    out_.cache_key = text;
    return {};
  }
  Problem take_prompt(od::value& value) {
    od::json_type type{};
    if (value.type().get(type)) return not_json();
    if (out_.path == ApiPath::Chat && type != od::json_type::array) return wrong("messages", "must be an array");
    if (type != od::json_type::array && type != od::json_type::string) {
      return wrong("prompt", "must be a string or an array");
    }
    if (prompt_.walk(value, 0)) return not_json();
    has_prompt_ = true;
    return {};
  }
  Problem take_stream_options(od::value& value) {
    if (is_null(value)) return take_any("stream_options", value);
    od::object options;
    if (value.get_object().get(options)) return wrong("stream_options", "must be an object");
    std::string_view raw;
    if (options.raw_json().get(raw)) return not_json();
    out_.stream_options = {static_cast<std::size_t>(raw.data() - body_.data()), raw.size()};
    if (options.reset().error()) return not_json();
    for (auto item : options) {
      od::field field;
      std::string_view key;
      if (std::move(item).get(field) || field.unescaped_key().get(key)) return not_json();
      od::value inner = field.value();
      if (key != "include_usage" || is_null(inner)) {
        if (rest_.walk(inner, 1)) return not_json();
      } else if (inner.get_bool().get(out_.include_usage)) {
        return wrong("stream_options.include_usage", "must be true or false");
      }
    }
    return {};
  }

  const std::string& body_;
  std::string_view prompt_key_;
  CompletionRequest out_;
  Measure rest_;
  Measure prompt_;
  bool has_prompt_ = false;
  bool has_model_ = false;
};

}  // namespace

std::expected<CompletionRequest, ApiError> read_completion(ApiPath path, const std::string& body) {
  return CompletionReader(path, body).read();
}

namespace {

std::int32_t count_of(std::string_view number) {
  std::int64_t value = -1;
  const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (ec != std::errc() || end == number.data() || value < 0) return -1;
  return static_cast<std::int32_t>(std::min<std::int64_t>(value, std::numeric_limits<std::int32_t>::max()));
}

std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

/// Where the string that begins at `from` (behind its quote) ends: its closing quote; npos when it does not.
std::size_t closing_quote(std::string_view json, std::size_t from) {
  for (std::size_t at = json.find('"', from); at != std::string_view::npos; at = json.find('"', at + 1)) {
    std::size_t backslashes = 0;
    while (at - backslashes > from && json[at - backslashes - 1] == '\\') ++backslashes;
    if (backslashes % 2 == 0) return at;
  }
  return std::string_view::npos;
}

/// Names of the texts that tokens come in: chat, completions, reasoning (two spellings), tool calls.
bool holds_text(std::string_view key) {
  return key == "content" || key == "text" || key == "reasoning" || key == "reasoning_content" || key == "arguments";
}

/// What is seen of a chunk on the way through it.
struct ChunkWalk {
  ChunkFacts facts;
  bool empty_text = false;  ///< of a token that is no whole character yet, unless the chunk opens or closes the answer
  bool opens = false;
  bool closes = false;
  bool choices = false;        ///< there is at least one
  const char* text = nullptr;  ///< the last one that is not empty, at its quote

  /// Most keys of a chunk are none that is looked for: their length says so.
  static constexpr std::uint32_t kLengths =
      1U << 4 | 1U << 7 | 1U << 9 | 1U << 12 | 1U << 13 | 1U << 16 | 1U << 17 | 1U << 23;

  void member(std::string_view key, std::string_view value) {
    if (key.size() > 23 || (kLengths >> key.size() & 1U) == 0) return;
    const bool is_text = value.starts_with('"');
    if (holds_text(key)) {
      if (is_text) said(value);
    } else if (key == "role") {
      opens = opens || is_text;
    } else if (key == "finish_reason") {
      closes = closes || is_text;
    } else if (key == "choices") {
      choices = value.starts_with('[') && !without_spaces(value.substr(1)).starts_with(']');
    } else {
      usage(key, value);
    }
  }
  void said(std::string_view value) {
    if (value.starts_with("\"\"")) {
      empty_text = true;
    } else {
      ++facts.tokens;
      text = value.data();
    }
  }
  void usage(std::string_view key, std::string_view value) {
    if (!key.ends_with("_tokens")) return;
    if (key == "completion_tokens" || key == "output_tokens") {
      facts.completion_tokens = count_of(value);
    } else if (key == "prompt_tokens" || key == "input_tokens") {
      facts.prompt_tokens = count_of(value);
    } else if (key == "cached_tokens" || key == "cache_read_input_tokens") {
      facts.cached_tokens = count_of(value);
    } else if (key == "reasoning_tokens") {
      facts.reasoning_tokens = count_of(value);
    }
  }
};

/// From string to string, each looked at once; those with a colon behind them are keys: `member(key, value)`.
template <typename Member>
void each_member(std::string_view data, const Member& member) {
  std::size_t at = data.find('"');
  while (at != std::string_view::npos) {
    const std::size_t end = closing_quote(data, at + 1);
    if (end == std::string_view::npos) return;
    std::string_view behind = without_spaces(data.substr(end + 1));
    if (behind.starts_with(':')) {
      behind = without_spaces(behind.substr(1));
      if (!behind.empty()) member(data.substr(at + 1, end - at - 1), behind);
    }
    at = data.find('"', end + 1);
  }
}

}  // namespace

namespace {

ChunkWalk walk_chunk(std::string_view data) {
  ChunkWalk walk;
  if (data == "[DONE]") {
    walk.facts.done = true;
    return walk;
  }
  walk.facts.error = data.starts_with("{\"error\"") || data.starts_with("{\"object\":\"error\"");
  each_member(data, [&](std::string_view key, std::string_view value) { walk.member(key, value); });
  if (walk.facts.tokens == 0 && walk.empty_text && !walk.opens && !walk.closes) walk.facts.tokens = 1;
  walk.facts.finished = walk.closes;
  walk.facts.usage_only = !walk.choices && walk.facts.completion_tokens >= 0;
  return walk;
}

/// Of a chunk that says nothing but one token.
ChunkFacts one_token() {
  ChunkFacts facts;
  facts.tokens = 1;
  return facts;
}

}  // namespace

ChunkFacts read_chunk(std::string_view data) { return walk_chunk(data).facts; }

ChunkFacts ChunkReader::read(std::string_view data) {
  const std::size_t from = before_.size();
  if (from > 0 && data.size() > from + behind_.size() && data.starts_with(before_) && data.ends_with(behind_) &&
      closing_quote(data, from) == data.size() - behind_.size()) {
    return one_token();
  }
  const ChunkWalk walk = walk_chunk(data);
  if (walk.text == nullptr || walk.facts != one_token()) return walk.facts;
  const std::size_t text = static_cast<std::size_t>(walk.text - data.data()) + 1;
  const std::size_t end = closing_quote(data, text);
  if (end == std::string_view::npos) return walk.facts;
  before_.assign(data.substr(0, text));
  behind_.assign(data.substr(end));
  return walk.facts;
}

ChunkFacts read_typed_event(std::string_view data) {
  if (data == "[DONE]") return read_chunk(data);
  ChunkWalk walk;
  std::string_view type;
  each_member(data, [&](std::string_view key, std::string_view value) {
    if (key == "type" && type.empty() && value.starts_with('"')) type = value.substr(1, value.find('"', 1) - 1);
    walk.usage(key, value);
  });
  ChunkFacts& facts = walk.facts;
  facts.error = type == "error" || type == "response.failed" || data.starts_with("{\"error\"");
  facts.finished = type == "response.completed" || type == "response.incomplete" || type == "message_stop";
  facts.done = facts.finished;
  facts.tokens = type.ends_with(".delta") || type == "content_block_delta" ? 1 : 0;
  return facts;
}

namespace {

/// From quote to quote: rfind() of a whole word looks at every byte.
std::size_t last_usage(std::string_view json) {
  for (std::size_t end = json.size(); end > 0;) {
    const void* const quote = ::memrchr(json.data(), '"', end);
    if (quote == nullptr) break;
    end = static_cast<std::size_t>(static_cast<const char*>(quote) - json.data());
    if (json.substr(end).starts_with("\"usage\"")) return end;
  }
  return std::string_view::npos;
}

}  // namespace

ChunkFacts read_usage(std::string_view json) {
  ChunkWalk walk;
  const std::size_t at = last_usage(json);
  if (at == std::string_view::npos) return walk.facts;
  each_member(json.substr(at), [&](std::string_view key, std::string_view value) { walk.usage(key, value); });
  return walk.facts;
}

}  // namespace wattle::net
