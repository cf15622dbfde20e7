#include "base/histogram.h"

#include <algorithm>
#include <cmath>

namespace wattle {

std::int64_t Histogram::quantile(double q) const {
  if (count_ == 0) return 0;
  const auto rank = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(q * static_cast<double>(count_))));
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) {
      const std::int64_t low = i == 0 ? 0 : upper(i - 1) + 1;
      return std::min(low + (upper(i) - low) / 2, max_);
    }
  }
  return max_;
}

void Histogram::merge(const Histogram& other) {
  if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size(), 0);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

}  // namespace wattle
