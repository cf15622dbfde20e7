#pragma once
#include <algorithm>
#include <cstdint>

namespace wattle::engine {

/// The paged KV cache of one instance: how many of its blocks are free.
class KvBlocks {
 public:
  /// `watermark`: share kept free when a prompt is admitted.
  KvBlocks(std::int64_t total, std::int32_t block_size, double watermark)
      : total_(total),
        free_(total),
        watermark_(static_cast<std::int64_t>(watermark * static_cast<double>(total))),
        block_size_(block_size) {}

  /// Blocks that hold so many tokens.
  [[nodiscard]] std::int64_t holding(std::int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::int64_t free() const { return free_; }
  [[nodiscard]] std::int64_t watermark() const { return watermark_; }
  [[nodiscard]] std::int64_t capacity_tokens() const { return total_ * block_size_; }

  /// Whether, beside what running requests have been promised, so many more can be.
  [[nodiscard]] bool can_promise(std::int64_t blocks) const { return promised_ + blocks <= total_ - aside_; }
  void promise(std::int64_t blocks) { promised_ += blocks; }

  /// Sets so many blocks aside, as far as they are free and not promised, instead of those that were.
  void set_aside(std::int64_t blocks) {
    free_ += aside_;
    aside_ = std::min({blocks, free_, total_ - promised_});
    free_ -= aside_;
  }
  [[nodiscard]] std::int64_t aside() const { return aside_; }

  void take(std::int64_t blocks) { free_ -= blocks; }
  void give(std::int64_t blocks) { free_ += blocks; }

 private:
  std::int64_t total_;
  std::int64_t free_;
  std::int64_t watermark_;
  std::int64_t promised_ = 0;
  std::int64_t aside_ = 0;
  std::int64_t block_size_;
};

}  // namespace wattle::engine
