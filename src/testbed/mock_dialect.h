#pragma once
// How engines format the same response: chunks of a stream, whole answers, errors. As recorded from vLLM 0.32 and
// llama.cpp; SGLang's, which does not run without a GPU, from its source. Pure.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace wattle::testbed {

enum class Dialect : std::uint8_t { Vllm, LlamaCpp, Sglang };

struct MockError {
  int status = 400;
  std::string message;
  std::string param;  ///< the field at fault; empty: none
};
[[nodiscard]] std::string error_body(Dialect dialect, const MockError& error);
/// Of a path or method that is not served; llama.cpp answers 404 to both.
[[nodiscard]] MockError no_route(Dialect dialect, bool path_known);
[[nodiscard]] std::string no_route_body(Dialect dialect, const MockError& error);

struct Usage {
  std::int32_t prompt = 0;
  std::int32_t output = 0;
  std::int32_t cached = 0;  ///< of the prompt
  [[nodiscard]] nlohmann::json json() const {
    return {{"prompt_tokens", prompt},
            {"completion_tokens", output},
            {"total_tokens", prompt + output},
            {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  }
};

/// One answer's words. Chunks are whole server-sent events.
class Wording {
 public:
  Wording() = default;
  Wording(Dialect dialect, bool chat, std::string_view id, std::string_view model, std::int64_t created);

  /// The chunk before the first token.
  [[nodiscard]] std::string opening() const;
  /// `last`: the finish reason where this is the choice's last token; else null.
  [[nodiscard]] std::string token(std::string_view text, const char* last, std::int32_t choice = 0) const;
  /// The chunk after a choice's last token; empty for vLLM.
  [[nodiscard]] std::string end_of(std::int32_t choice, const char* finish_reason) const;
  /// The chunks after the last choice. `usage`: null if not requested.
  [[nodiscard]] std::string closing(const Usage* usage) const;
  /// The rest of a stream whose engine has died.
  [[nodiscard]] std::string broken(std::string_view message) const;
  [[nodiscard]] nlohmann::json choice(std::int32_t index, std::string_view text, const char* finish_reason) const;
  [[nodiscard]] nlohmann::json whole(const nlohmann::json& choices, const Usage& usage) const;

 private:
  [[nodiscard]] std::string chunk(std::int32_t choice, std::string_view delta, std::string_view finish) const;
  Dialect dialect_ = Dialect::Vllm;
  bool chat_ = false;
  std::string id_;
  std::string model_;
  std::int64_t created_ = 0;
  std::string head_;  ///< of each chunk, up to its choices
};

}  // namespace wattle::testbed
