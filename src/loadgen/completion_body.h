#pragma once
// The body of a streamed completion whose prompt has a length and a content of our choice.
#include <cstdint>
#include <string>
#include <string_view>

#include "model/prompt_blocks.h"

namespace wattle::loadgen {

/// How a prompt is put on the wire.
enum class PromptForm : std::uint8_t {
  Chat,      ///< /v1/chat/completions, short English words: each a token to real tokenizers, four bytes to estimators
  Text,      ///< /v1/completions, the same text
  TokenIds,  ///< /v1/completions, an array of token ids: the length is exact for every tokenizer
};

/// Where it is POSTed to.
[[nodiscard]] constexpr std::string_view completion_target(PromptForm form) {
  return form == PromptForm::Chat ? "/v1/chat/completions" : "/v1/completions";
}

struct Prompt {
  std::int32_t tokens = 1;
  /// Prompts are equal on the wire as far as these are; what lies beyond, or the whole of null, is `own`'s: engines
  /// with a prefix cache would find the words of another request there.
  PromptContent content = nullptr;
  std::uint64_t own = 0;
};

struct Completion {
  PromptForm form = PromptForm::Chat;
  std::string model;
  Prompt prompt;
  std::int32_t max_tokens = 1;  ///< with ignore_eos
  bool include_usage = false;
};

/// Token ids are below 256: bytes, of which every vocabulary has that many, and none of the control tokens at either
/// end.
[[nodiscard]] std::string completion_body(const Completion& of);

}  // namespace wattle::loadgen
