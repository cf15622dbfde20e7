#pragma once
// A log-linear histogram of non-negative 64-bit values with bounded memory (HdrHistogram's layout).
#include <bit>
#include <cstdint>
#include <vector>

#include "base/wide.h"

namespace wattle {

/// Relative bucket width 1/128 (< 0.8 %), quantiles report the bucket's middle (error < 0.4 %). Sum and count are
/// exact. Memory is at most ~58 k counters (460 kB); it grows with the largest value seen, not with the count.
class Histogram {
 public:
  static constexpr int kSubBits = 7;

  void add(std::int64_t value, std::int64_t count = 1) {
    const std::size_t i = index(value);
    if (i >= counts_.size()) counts_.resize(i + 1, 0);
    counts_[i] += count;
    count_ += count;
    if (value > 0) sum_ += Int128{value} * count;
    if (value > max_) max_ = value;
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] Int128 sum() const { return sum_; }
  [[nodiscard]] double mean() const {
    return count_ == 0 ? 0.0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  [[nodiscard]] std::int64_t max() const { return max_; }
  /// Smallest recorded level with at least a share q in [0, 1] of the values at or below it; 0 when empty.
  [[nodiscard]] std::int64_t quantile(double q) const;
  /// Calls f(bucket_upper_bound, cumulative_count) for each non-empty bucket, ascending.
  template <typename F>
  void for_each_cumulative(F&& f) const {
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      seen += counts_[i];
      f(upper(i), seen);
    }
  }
  void merge(const Histogram& other);

  /// Bucket of a value, and the largest value of a bucket. Negative values count as 0.
  [[nodiscard]] static std::size_t index(std::int64_t value) {
    if (value < (1 << kSubBits)) return value < 0 ? 0 : static_cast<std::size_t>(value);
    const auto v = static_cast<std::uint64_t>(value);
    const int shift = static_cast<int>(std::bit_width(v)) - 1 - kSubBits;
    return (static_cast<std::size_t>(shift + 1) << kSubBits) +
           static_cast<std::size_t>((v >> shift) - (1U << kSubBits));
  }
  [[nodiscard]] static std::int64_t upper(std::size_t i) {
    if (i < (1U << kSubBits)) return static_cast<std::int64_t>(i);
    const int shift = static_cast<int>(i >> kSubBits) - 1;
    const std::uint64_t mantissa = (i & ((1U << kSubBits) - 1)) + (1U << kSubBits);
    return static_cast<std::int64_t>(((mantissa + 1) << shift) - 1);
  }

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t count_ = 0;
  std::int64_t max_ = 0;
  Int128 sum_ = 0;  ///< integer, so that it does not depend on the order of additions and merges
};

}  // namespace wattle
