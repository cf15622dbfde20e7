#pragma once
// A request's features before its answer, as a fixed number of values for trained trees. Words of the text are counted
// by hash and cannot be recovered.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace wattle::predict {

inline constexpr std::size_t kNameFeatures = 16;     ///< for tenants, and for models: 1 at the hash of the name
inline constexpr std::size_t kHashedFeatures = 256;  ///< counts of words and word pairs, by hash
/// Prompt tokens, max_tokens; of the text: words, question signs, lines, digits, code fences.
inline constexpr std::size_t kShapeFeatures = 7;
inline constexpr std::size_t kFirstWord = kShapeFeatures + 2 * kNameFeatures;
inline constexpr std::size_t kPromptFeatures = kFirstWord + kHashedFeatures;
using PromptFeatures = std::array<float, kPromptFeatures>;

/// Of a longer text only the first and last half of this many bytes are read: the question is usually at either end.
inline constexpr std::size_t kMostText = 65'536;

/// Features other than the text; 0 and empty: unknown.
struct PromptFacts {
  std::int32_t prompt_tokens = 0;  ///< as the driver has counted them
  std::int32_t max_tokens = 0;     ///< the client's cap
  std::string_view tenant = {};
  std::string_view model = {};
};

/// Counts are stored as log(1 + n). No allocation.
[[nodiscard]] PromptFeatures features_of(const PromptFacts& facts, std::string_view text = {});
/// The same for the texts in a valid JSON value of `messages`, `prompt` or `input` in OpenAI's API: plain strings, and
/// those under "content", "text" and "input". Equal to features_of() of these joined by spaces.
[[nodiscard]] PromptFeatures features_of_json(const PromptFacts& facts, std::string_view value);

}  // namespace wattle::predict
