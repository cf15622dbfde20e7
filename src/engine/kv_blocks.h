#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/block_keys.h"
#include "engine/prefix_cache.h"

namespace wattle::engine {

/// The paged KV cache of one instance: how many blocks are free, and what is cached in which.
class KvBlocks {
 public:
  /// `watermark`: share kept free when a prompt is admitted.
  KvBlocks(std::int64_t total, std::int32_t block_size, double watermark)
      : total_(total),
        free_(total),
        watermark_(static_cast<std::int64_t>(watermark * static_cast<double>(total))),
        block_size_(block_size),
        cache_(total) {}

  /// Blocks needed to hold `tokens` tokens.
  [[nodiscard]] std::int64_t holding(std::int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  /// Blocks that `tokens` tokens fill completely.
  [[nodiscard]] std::int64_t filled(std::int64_t tokens) const { return tokens / block_size_; }
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::int64_t free() const { return free_; }  ///< of these, some may be cached
  [[nodiscard]] std::int64_t watermark() const { return watermark_; }
  [[nodiscard]] std::int64_t capacity_tokens() const { return total_ * block_size_; }

  /// Whether this many blocks can be promised beyond what running requests have been promised.
  [[nodiscard]] bool can_promise(std::int64_t blocks) const { return promised_ + blocks <= total_ - aside_; }
  void promise(std::int64_t blocks) { promised_ += blocks; }

  /// Sets this many blocks aside, as far as they are free and not promised, in place of the previous number.
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
  /// Blocks that contain nothing cached.
  void give(std::int64_t blocks) {
    free_ += blocks;
    if (cache_.used()) cache_.give(blocks);
  }

  /// How many of a request's first `most` blocks are cached consecutively from the beginning.
  struct Prefix {
    std::int64_t blocks = 0;
    std::int64_t in_use = 0;  ///< number of these that are not free
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
  /// Takes hold of those blocks; `held` must be empty.
  void hold_cached(const BlockKeys& keys, std::int64_t most, std::vector<CachedBlock>& held) {
    for (std::int64_t i = 0; i < most; ++i) {
      const CachedBlock block = cache_.find(keys[i]);
      if (block == kNotCached) return;
      cache_.hold(block) ? --free_ : ++shared_;
      held.push_back(block);
    }
  }
  /// The first `filled` of the request's blocks, which it has taken, are full, or will be with the step in progress:
  /// other requests may use them as well.
  void enter(const BlockKeys& keys, std::int64_t filled, std::vector<CachedBlock>& held) {
    for (auto i = static_cast<std::int64_t>(held.size()); i < filled; ++i) held.push_back(cache_.enter(keys[i], free_));
  }
  /// The request's last block will be reused first.
  void release(std::vector<CachedBlock>& held) {
    for (; !held.empty(); held.pop_back()) cache_.release(held.back()) ? ++free_ : --shared_;
  }
  /// Everything cached is lost. Precondition: no request holds any block.
  void forget_cached() { cache_ = PrefixCache(total_); }

  /// Tokens counted with more than one request, each time except the first.
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
