#pragma once
// A prompt's content as far as a prefix cache needs it: a hash of everything up to the end of each of its blocks.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace wattle {

/// SplitMix64's finaliser over both words (Steele et al. 2014).
[[nodiscard]] constexpr std::uint64_t hash_of(std::uint64_t before, std::uint64_t next) {
  std::uint64_t z = (before ^ (next * 0x9e3779b97f4a7c15ULL)) + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

/// Immutable once shared.
struct PromptBlocks {
  std::int32_t block_tokens = 1;  ///< per block; the last one may be partly filled
  /// Chained hashes: equal values at a block mean equal tokens up to its end. Tokens beyond the last hash are unique to
  /// the prompt.
  std::vector<std::uint64_t> chain;
};

/// Null: unknown.
using PromptContent = std::shared_ptr<const PromptBlocks>;

/// Key of the `block`-th full block of `block_tokens` tokens in a prompt of `prompt_tokens`: equal keys mean equal
/// tokens from the beginning to that block's end. Content hashes may be of larger or smaller blocks: the hash that
/// covers a block's end is used. A block that none covers is unique to the request with id `own`.
[[nodiscard]] inline std::uint64_t block_key(const PromptBlocks* content, std::int64_t block, std::int64_t block_tokens,
                                             std::int64_t prompt_tokens, std::uint64_t own) {
  const std::int64_t end = (block + 1) * block_tokens;
  const auto covering = content == nullptr ? 0 : static_cast<std::size_t>((end - 1) / content->block_tokens);
  const bool known = content != nullptr && end <= prompt_tokens && covering < content->chain.size();
  return hash_of(known ? content->chain[covering] : own, static_cast<std::uint64_t>(block));
}

/// Content of a prompt whose blocks have known ids.
[[nodiscard]] inline PromptContent chained(std::int32_t block_tokens, std::span<const std::uint64_t> ids) {
  PromptBlocks blocks{block_tokens, {}};
  blocks.chain.reserve(ids.size());
  std::uint64_t before = 0;
  for (const std::uint64_t id : ids) blocks.chain.push_back(before = hash_of(before, id));
  return std::make_shared<const PromptBlocks>(std::move(blocks));
}

inline constexpr std::int32_t kTextBlockTokens = 16;
inline constexpr std::size_t kTextBlockBytes = 64;  ///< about 16 tokens of English text

/// Content of untokenised text, up to `most_blocks` whole blocks of kTextBlockBytes; null if it has none.
[[nodiscard]] inline PromptContent text_blocks(std::string_view text, std::size_t most_blocks) {
  const std::size_t count = std::min(text.size() / kTextBlockBytes, most_blocks);
  if (count == 0) return nullptr;
  PromptBlocks blocks{kTextBlockTokens, {}};
  blocks.chain.reserve(count);
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::uint64_t, kTextBlockBytes / sizeof(std::uint64_t)> words;  // NOLINT: filled by the next line
    std::memcpy(words.data(), text.data() + i * kTextBlockBytes, kTextBlockBytes);
    for (const std::uint64_t word : words) hash = hash_of(hash, word);
    blocks.chain.push_back(hash);
  }
  return std::make_shared<const PromptBlocks>(std::move(blocks));
}

/// The same content for another group of users: prompts with equal content and equal salt stay equal, those with
/// different salts differ.
[[nodiscard]] inline PromptContent salted(const PromptContent& content, std::uint64_t salt) {
  if (content == nullptr || salt == 0) return content;
  PromptBlocks blocks = *content;
  for (std::uint64_t& hash : blocks.chain) hash = hash_of(hash, ~salt);
  return std::make_shared<const PromptBlocks>(std::move(blocks));
}

}  // namespace wattle
