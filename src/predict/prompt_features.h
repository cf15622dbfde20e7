#pragma once
// What is known of a request before its answer, as a fixed number of features: what trees learned from own traffic look
// at. Text is counted by hashes of its words, which cannot be turned back into it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace wattle::predict {

inline constexpr std::size_t kNameFeatures = 16;     ///< of tenants, and of models: 1 at its own, by hash of its name
inline constexpr std::size_t kHashedFeatures = 256;  ///< words and pairs of words, by hash
/// Prompt tokens, cap on the answer; of the text: words, question signs, lines, digits, code fences.
inline constexpr std::size_t kShapeFeatures = 7;
inline constexpr std::size_t kFirstWord = kShapeFeatures + 2 * kNameFeatures;
inline constexpr std::size_t kPromptFeatures = kFirstWord + kHashedFeatures;
using PromptFeatures = std::array<float, kPromptFeatures>;

/// Of a longer text the first and the last half of so many bytes are read: the ask stands at either end.
inline constexpr std::size_t kMostText = 65'536;

/// What is known whatever the text; 0 and empty: it is not.
struct PromptFacts {
  std::int32_t prompt_tokens = 0;  ///< as the driver has counted them
  std::int32_t max_tokens = 0;     ///< the client's cap
  std::string_view tenant = {};
  std::string_view model = {};
};

/// Counts as log(1 + n). No allocation.
[[nodiscard]] PromptFeatures features_of(const PromptFacts& facts, std::string_view text = {});
/// The same of the texts in a valid JSON value, of `messages`, `prompt` or `input` as OpenAI's API has them: strings
/// that stand alone, and those under "content", "text" and "input". Equal to features_of() of these joined by spaces.
[[nodiscard]] PromptFeatures features_of_json(const PromptFacts& facts, std::string_view value);

}  // namespace wattle::predict
