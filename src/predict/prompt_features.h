#pragma once
// A prompt's text as a fixed number of features, in microseconds: what trees learned from own traffic look at.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace wattle::predict {

inline constexpr std::size_t kHashedFeatures = 256;  ///< words and pairs of words, by hash
inline constexpr std::size_t kShapeFeatures = 6;     ///< prompt tokens, words, questions, lines, digits, code fences
inline constexpr std::size_t kPromptFeatures = kShapeFeatures + kHashedFeatures;
using PromptFeatures = std::array<float, kPromptFeatures>;

/// Counts, as log(1 + n). `prompt_tokens`: as the gateway counted them, or 0.
[[nodiscard]] PromptFeatures features_of(std::string_view prompt, std::int32_t prompt_tokens);

}  // namespace wattle::predict
