#pragma once
// What a prompt is made of, as far as a cache of prefixes has to know: a hash of it up to the end of each of its
// blocks.
#include <cstdint>
#include <memory>
#include <span>
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
  std::int32_t block_tokens = 1;  ///< of each block; the prompt's last may be partly filled
  /// Chained: equal at a block means equal tokens up to its end. What the prompt has beyond the last is its own.
  std::vector<std::uint64_t> chain;
};

/// Null: nothing is known of it.
using PromptContent = std::shared_ptr<const PromptBlocks>;

/// Of blocks known by ids of their own.
[[nodiscard]] inline PromptContent chained(std::int32_t block_tokens, std::span<const std::uint64_t> ids) {
  PromptBlocks blocks{block_tokens, {}};
  blocks.chain.reserve(ids.size());
  std::uint64_t before = 0;
  for (const std::uint64_t id : ids) blocks.chain.push_back(before = hash_of(before, id));
  return std::make_shared<const PromptBlocks>(std::move(blocks));
}

/// The same blocks said by other people: prompts equal before are equal after, and equal to none of another salt.
[[nodiscard]] inline PromptContent salted(const PromptContent& content, std::uint64_t salt) {
  if (content == nullptr || salt == 0) return content;
  PromptBlocks blocks = *content;
  for (std::uint64_t& hash : blocks.chain) hash = hash_of(hash, ~salt);
  return std::make_shared<const PromptBlocks>(std::move(blocks));
}

}  // namespace wattle
