#include "net/openai.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

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

/// Walks a value to its end, so that all of it has been parsed, and measures it.
struct Measure {
  std::int64_t string_bytes = 0;
  std::int64_t numbers = 0;
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
          if (const auto e = walk(field.value(), depth + 1)) return e;
        }
        return SUCCESS;
      }
      case od::json_type::string: {
        std::string_view text;
        const auto e = value.get_string().get(text);
        if (!e) string_bytes += static_cast<std::int64_t>(text.size());
        return e;
      }
      case od::json_type::number: {
        ++numbers;
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

std::expected<CompletionRequest, ApiError> read_completion(ApiPath path, const std::string& body) {
  static_assert(RequestParser::kBodyPadding >= simdjson::SIMDJSON_PADDING);
  thread_local od::parser parser;
  CompletionRequest out;
  out.path = path;
  od::document document;
  od::object object;
  if (body.empty() || body.capacity() < body.size() + simdjson::SIMDJSON_PADDING) return std::unexpected(not_json());
  if (parser.iterate(body.data(), body.size(), body.capacity()).get(document)) return std::unexpected(not_json());
  if (document.get_object().get(object)) return std::unexpected(not_json());

  Measure rest;
  Measure prompt;
  bool has_prompt = false;
  bool has_model = false;
  const std::string_view prompt_key = path == ApiPath::Chat ? "messages" : "prompt";
  for (auto item : object) {
    od::field field;
    std::string_view key;
    if (std::move(item).get(field) || field.unescaped_key().get(key)) return std::unexpected(not_json());
    od::value value = field.value();
    if (key == "model") {
      std::string_view model;
      if (value.get_string().get(model)) return std::unexpected(wrong("model", "must be a string"));
      out.model = model;
      has_model = true;
    } else if (key == prompt_key) {
      od::json_type type{};
      if (value.type().get(type)) return std::unexpected(not_json());
      if (path == ApiPath::Chat && type != od::json_type::array) {
        return std::unexpected(wrong("messages", "must be an array"));
      }
      if (type != od::json_type::array && type != od::json_type::string) {
        return std::unexpected(wrong("prompt", "must be a string or an array"));
      }
      if (prompt.walk(value, 0)) return std::unexpected(not_json());
      has_prompt = true;
    } else if (key == "stream" && !is_null(value)) {
      if (value.get_bool().get(out.stream)) return std::unexpected(wrong("stream", "must be true or false"));
    } else if (key == "n" && !is_null(value)) {
      if (value.get_int64().get(out.n) || out.n < 1) return std::unexpected(wrong("n", "must be a positive integer"));
    } else if ((key == "max_tokens" || key == "max_completion_tokens") && !is_null(value)) {
      const bool wins = key == "max_completion_tokens" || out.max_tokens == 0;
      std::int64_t tokens = 0;
      if (value.get_int64().get(tokens) || tokens < 1 || tokens > std::numeric_limits<std::int32_t>::max()) {
        return std::unexpected(wrong(key, "must be a positive integer"));
      }
      if (wins) out.max_tokens = static_cast<std::int32_t>(tokens);
    } else {
      if (is_reserved(key)) out.reserved_field = key;
      if (key == "stream_options") out.stream_options = true;
      const bool passed_on = key == "vllm_xargs";  // vLLM merges these into the same map
      if (rest.walk(value, 0)) return std::unexpected(not_json());
      if (passed_on && !rest.reserved.empty()) out.reserved_field = rest.reserved;
      rest.reserved.clear();
    }
  }
  const char* beyond = nullptr;
  if (document.current_location().get(beyond) == SUCCESS) return std::unexpected(not_json());  // more than one value
  if (!has_model) return std::unexpected(wrong("model", "is required"));
  if (!has_prompt) return std::unexpected(wrong(prompt_key, "is required"));
  const std::int64_t tokens = prompt.numbers + (prompt.string_bytes + 3) / 4;
  if (path == ApiPath::Completions) out.prompts = std::max<std::int64_t>(prompt.items, 1);
  out.prompt_tokens = static_cast<std::int32_t>(std::clamp<std::int64_t>(tokens, 1, 1 << 30));
  return out;
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
  bool choices = false;  ///< there is at least one

  void member(std::string_view key, std::string_view value) {
    const bool text = value.starts_with('"');
    if (holds_text(key)) {
      if (text) value.starts_with("\"\"") ? static_cast<void>(empty_text = true) : static_cast<void>(++facts.tokens);
    } else if (key == "role") {
      opens = opens || text;
    } else if (key == "finish_reason") {
      closes = closes || text;
    } else if (key == "choices") {
      choices = value.starts_with('[') && !without_spaces(value.substr(1)).starts_with(']');
    } else if (key == "completion_tokens") {
      facts.completion_tokens = count_of(value);
    } else if (key == "prompt_tokens") {
      facts.prompt_tokens = count_of(value);
    } else if (key == "cached_tokens") {
      facts.cached_tokens = count_of(value);
    }
  }
};

}  // namespace

std::int64_t integer_after(std::string_view json, std::string_view quoted_key) {
  const std::size_t at = json.rfind(quoted_key);
  if (at == std::string_view::npos) return -1;
  std::size_t i = at + quoted_key.size();
  while (i < json.size() && (json[i] == ' ' || json[i] == ':')) ++i;
  std::int64_t value = -1;
  const auto [end, ec] = std::from_chars(json.data() + i, json.data() + json.size(), value);
  return ec == std::errc() && end != json.data() + i && value >= 0 ? value : -1;
}

ChunkFacts read_chunk(std::string_view data) {
  ChunkWalk walk;
  if (data == "[DONE]") {
    walk.facts.done = true;
    return walk.facts;
  }
  walk.facts.error = data.starts_with("{\"error\"") || data.starts_with("{\"object\":\"error\"");
  // From string to string, each looked at once; those with a colon behind them are keys.
  std::size_t at = data.find('"');
  while (at != std::string_view::npos) {
    const std::size_t end = closing_quote(data, at + 1);
    if (end == std::string_view::npos) break;
    std::string_view behind = without_spaces(data.substr(end + 1));
    if (behind.starts_with(':')) {
      behind = without_spaces(behind.substr(1));
      if (!behind.empty()) walk.member(data.substr(at + 1, end - at - 1), behind);
    }
    at = data.find('"', end + 1);
  }
  if (walk.facts.tokens == 0 && walk.empty_text && !walk.opens && !walk.closes) walk.facts.tokens = 1;
  walk.facts.usage_only = !walk.choices && walk.facts.completion_tokens >= 0;
  return walk.facts;
}

}  // namespace wattle::net
