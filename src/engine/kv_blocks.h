#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/block_keys.h"
#include "engine/prefix_cache.h"

namespace wattle::engine {

/// The paged KV cache of one instance: how many of its blocks are free, and what is cached in which.
class KvBlocks {
 public:
  /// `watermark`: share kept free when a prompt is admitted.
  KvBlocks(std::int64_t total, std::int32_t block_size, double watermark)
      : total_(total),
        free_(total),
        watermark_(static_cast<std::int64_t>(watermark * static_cast<double>(total))),
        block_size_(block_size),
        cache_(total) {}

  /// Blocks that hold so many tokens.
  [[nodiscard]] std::int64_t holding(std::int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  /// Blocks that so many tokens fill.
  [[nodiscard]] std::int64_t filled(std::int64_t tokens) const { return tokens / block_size_; }
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::int64_t free() const { return free_; }  ///< of these, some may be cached
  [[nodiscard]] std::int64_t watermark() const { return watermark_; }
  [[nodiscard]] std::int64_t capacity_tokens() const { return total_ * block_size_; }

  /// Whether, beside what running requests have been promised, so many more can be.
  [[nodiscard]] bool can_promise(std::int64_t blocks) const { return promised_ + blocks <= total_ - aside_; }
  void promise(std::int64_t blocks) { promised_ += blocks; }

  /// Sets so many blocks aside, as far as they are free and not promised, instead of those that were.
  void set_aside(std::int64_t blocks) {
    const std::int64_t more = std::min({blocks, free_ + aside_, total_ - promised_}) - aside_;
    aside_ += more;
    more > 0 ? take(more) : give(-more);
  }
  [[nodiscard]] std::int64_t aside() const { return aside_; }

  void take(std::int64_t blocks) {
    free_ -= blocks;
    if (cache_.used()) cache_.take(blocks);
  }
  /// Nothing is cached in them.
  void give(std::int64_t blocks) {
    free_ += blocks;
    if (cache_.used()) cache_.give(blocks);
  }

  /// Of its first `most` blocks, how many are cached in one piece from the beginning.
  struct Prefix {
    std::int64_t blocks = 0;
    std::int64_t in_use = 0;  ///< of these, not free
  };
  [[nodiscard]] Prefix cached(const BlockKeys& keys, std::int64_t most) const {
    Prefix found;
    for (; found.blocks < most; ++found.blocks) {
      const CachedBlock block = cache_.find(keys[found.blocks]);
      if (block == kNotCached) break;
      if (cache_.held(block)) ++found.in_use;
    }
    return found;
  }
  /// Holds those blocks; `held` is empty before.
  void hold_cached(const BlockKeys& keys, std::int64_t most, std::vector<CachedBlock>& held) {
    for (std::int64_t i = 0; i < most; ++i) {
      const CachedBlock block = cache_.find(keys[i]);
      if (block == kNotCached) return;
      cache_.hold(block) ? --free_ : ++shared_;
      held.push_back(block);
    }
  }
  /// The first `filled` of its blocks, which it has taken, are full, or will be with the step in progress: others may
  /// use them, too.
  void enter(const BlockKeys& keys, std::int64_t filled, std::vector<CachedBlock>& held) {
    for (auto i = static_cast<std::int64_t>(held.size()); i < filled; ++i) held.push_back(cache_.enter(keys[i], free_));
  }
  /// Its last block is the first that will be taken.
  void release(std::vector<CachedBlock>& held) {
    for (; !held.empty(); held.pop_back()) cache_.release(held.back()) ? ++free_ : --shared_;
  }
  /// What is cached is lost. Nobody holds anything.
  void forget_cached() { cache_ = PrefixCache(total_); }

  /// Tokens that are counted with more than one request, each time but the first.
  [[nodiscard]] std::int64_t shared_tokens() const { return shared_ * block_size_; }
  [[nodiscard]] const PrefixCache& cache() const { return cache_; }

 private:
  std::int64_t total_;
  std::int64_t free_;
  std::int64_t watermark_;
  std::int64_t promised_ = 0;
  std::int64_t aside_ = 0;
  std::int64_t shared_ = 0;  ///< holders of cached blocks beyond the first of each
  std::int64_t block_size_;
  PrefixCache cache_;
};

}  // namespace wattle::engine
