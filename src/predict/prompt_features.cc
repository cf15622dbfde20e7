#include "predict/prompt_features.h"

#include <algorithm>
#include <cmath>

namespace wattle::predict {

namespace {
constexpr std::uint64_t kStart = 0xcbf29ce484222325ULL;  // FNV-1a
constexpr std::uint64_t kPrime = 0x100000001b3ULL;

std::size_t bucket(std::uint64_t hash) {
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdULL;
  hash ^= hash >> 33U;
  return kShapeFeatures + hash % kHashedFeatures;
}

bool in_word(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c >= 0x80;
}
}  // namespace

PromptFeatures features_of(std::string_view prompt, std::int32_t prompt_tokens) {
  PromptFeatures out{};
  float words = 0.0F;
  std::uint64_t word = kStart;
  std::uint64_t before = 0;
  bool open = false;
  const auto close = [&] {
    if (!open) return;
    out[bucket(word)] += 1.0F;
    if (before != 0) out[bucket(before * 31 + word)] += 1.0F;
    before = word;
    word = kStart;
    words += 1.0F;
    open = false;
  };
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    const auto c = static_cast<unsigned char>(prompt[i]);
    if (in_word(c)) {
      const unsigned char lower = c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c + ('a' - 'A')) : c;
      word = (word ^ lower) * kPrime;
      open = true;
      out[4] += c >= '0' && c <= '9' ? 1.0F : 0.0F;
      continue;
    }
    close();
    out[2] += c == '?' ? 1.0F : 0.0F;
    out[3] += c == '\n' ? 1.0F : 0.0F;
    out[5] += prompt.substr(i).starts_with("```") ? 1.0F : 0.0F;
  }
  close();
  out[0] = static_cast<float>(std::max(prompt_tokens, 0));
  out[1] = words;
  for (float& f : out) f = std::log1p(f);
  return out;
}

}  // namespace wattle::predict
