#include "loadgen/completion_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace wattle::loadgen {

namespace {

/// Words of one token in every known tokenizer, and of four bytes for those that estimate by length.
constexpr std::array<std::string_view, 8> kWords{" the", " and", " for", " not", " you", " one", " all", " was"};
static_assert(kTextBlockBytes == 4 * kTextBlockTokens);
/// Ids of bytes: to BPE vocabularies the first 256, to others those behind a few control tokens.
constexpr std::uint64_t kLeastId = 64;
constexpr std::uint64_t kIdsPerWord = 20;

}  // namespace

std::string completion_body(const Completion& of) {
  const bool ids = of.form == PromptForm::TokenIds;
  const std::int32_t tokens = std::max(of.prompt.tokens, 1);
  std::string prompt = ids ? "[" : "\"";
  prompt.reserve(4 * static_cast<std::size_t>(tokens) + 2);
  std::uint64_t digits = 0;
  for (std::int32_t i = 0; i < tokens; ++i, digits >>= 3U) {
    if (i % kTextBlockTokens == 0) {  // 16 words of three bits
      digits = block_key(of.prompt.content.get(), i / kTextBlockTokens, kTextBlockTokens, tokens, of.prompt.own);
    }
    const std::uint64_t digit = digits % kWords.size();
    if (ids) {
      fmt::format_to(std::back_inserter(prompt), "{}{}", i == 0 ? "" : ",",
                     kLeastId + digit * kIdsPerWord + static_cast<std::uint64_t>(i) % kIdsPerWord);
    } else {
      prompt += kWords[digit];
    }
  }
  prompt += ids ? ']' : '"';
  const std::string carrier = of.form == PromptForm::Chat
                                  ? fmt::format(R"("messages":[{{"role":"user","content":{}}}])", prompt)
                                  : fmt::format(R"("prompt":{})", prompt);
  return fmt::format(R"({{"model":{},{},"max_tokens":{},"ignore_eos":true,"stream":true{}}})",
                     nlohmann::json(of.model).dump(), carrier, std::max(of.max_tokens, 1),
                     of.include_usage ? R"(,"stream_options":{"include_usage":true})" : "");
}

}  // namespace wattle::loadgen
