#include "net/openai.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "net/http_parser.h"

namespace wattle::net {

namespace {

namespace od = simdjson::ondemand;
using simdjson::SUCCESS;

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
    if (depth > kNestedMost) return simdjson::DEPTH_ERROR;
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

ApiError not_json(simdjson::error_code why = simdjson::TAPE_ERROR) {
  if (why == simdjson::DEPTH_ERROR) return too_deep();
  ApiError error;
  error.message = "the request body is not a valid JSON object";
  error.code = "invalid_json";
  return error;
}

/// A whole number, however it is written: to JSON, and to the engines, 5.0 and 5e0 are 5.
std::optional<std::int64_t> whole(od::value& value) {
  std::int64_t number = 0;
  if (!value.get_int64().get(number)) return number;
  constexpr double kExact = 1LL << 53;
  double real = 0;
  const bool exact = !value.get_double().get(real) && std::abs(real) <= kExact && std::floor(real) == real;
  return exact ? std::optional(static_cast<std::int64_t>(real)) : std::nullopt;
}

bool is_null(od::value& value) {
  od::json_type type{};
  return !value.type().get(type) && type == od::json_type::null;
}

}  // namespace

ApiError too_deep() {
  return {400, fmt::format("the request body is nested deeper than {} levels", kNestedMost), "invalid_request_error",
          "", "too_deep"};
}

std::string json_text(const nlohmann::ordered_json& body) {
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string error_json(const ApiError& error) {
  nlohmann::ordered_json body;
  auto& inner = body["error"];
  inner["message"] = error.message;
  inner["type"] = error.type;
  inner["param"] = error.param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param);
  inner["code"] = error.code.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.code);
  return json_text(body);
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
    if (!is_completion(out_.path)) {  // whatever text it has is taken for prompt
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
    const bool is_prompt = key == prompt_key_ || (!is_completion(out_.path) && (key == "messages" || key == "input"));
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
    if (!is_completion(out_.path)) {
      const bool cap = key == "max_tokens" || key == "max_output_tokens";
      const auto most = cap ? whole(value) : std::nullopt;
      if (!most) return take_any(key, value);
      out_.max_tokens = static_cast<std::int32_t>(std::clamp<std::int64_t>(*most, 0, 1 << 30));
      return {};
    }
    if (key == prompt_key_) return take_prompt(value);
    if (key == "stream_options") return take_stream_options(value);
    if (key == "n" && !is_null(value)) {
      out_.n = whole(value).value_or(0);
      return out_.n < 1 ? Problem(wrong("n", "must be a positive integer")) : Problem();
    }
    if ((key == "max_tokens" || key == "max_completion_tokens") && !is_null(value)) {
      const bool wins = key == "max_completion_tokens" || out_.max_tokens == 0;
      // Completions may ask for none: the prompt's own tokens, with `echo`.
      const std::int64_t least = out_.path == ApiPath::Completions && key == "max_tokens" ? 0 : 1;
      constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
      const auto tokens = whole(value);
      if (!tokens || *tokens < least || *tokens > kMost) {
        return wrong(key, "must be an integer from " + std::to_string(least) + " to " + std::to_string(kMost));
      }
      if (wins) out_.max_tokens = static_cast<std::int32_t>(std::max<std::int64_t>(*tokens, 1));
      return {};
    }
    if (key == "best_of") {
      const auto computed = whole(value);
      if (!computed) return take_any(key, value);  // the engine's to refuse
      out_.best_of = *computed;
      return {};
    }
    return take_any(key, value);
  }
  Problem take_any(std::string_view key, od::value& value) {
    if (is_reserved(key)) out_.reserved_field = key;
    if (key == "priority") out_.priority = true;
    if (key == "prompt_cache_key") return take_cache_key(value);
    const bool passed_on = key == "vllm_xargs";  // vLLM merges these into the same map
    if (const auto e = rest_.walk(value, 0)) return not_json(e);
    if (passed_on && !rest_.reserved.empty()) out_.reserved_field = rest_.reserved;
    rest_.reserved.clear();
    return {};
  }
  Problem take_cache_key(od::value& value) {
    std::string_view text;
    od::json_type type{};
    if (value.type().get(type)) return not_json();
    if (type != od::json_type::string) {
      const auto e = rest_.walk(value, 0);
      return e ? Problem(not_json(e)) : Problem();
    }
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
    if (const auto e = prompt_.walk(value, 0)) return not_json(e);
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
        if (const auto e = rest_.walk(inner, 1)) return not_json(e);
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

}  // namespace wattle::net
