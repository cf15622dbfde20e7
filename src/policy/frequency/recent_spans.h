#pragma once
// The newest of many spans, in order of their length.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "units/time.h"

namespace wattle::policy {

class RecentSpans {
 public:
  /// `kept`: how many count, at least 1.
  explicit RecentSpans(std::size_t kept) : kept_(kept) {}

  void add(Span span) {
    if (newest_.size() < kept_) {
      newest_.push_back(span);
    } else {
      sorted_.erase(std::ranges::lower_bound(sorted_, newest_[next_]));
      newest_[next_] = span;
    }
    next_ = (next_ + 1) % kept_;
    sorted_.insert(std::ranges::upper_bound(sorted_, span), span);
  }

  [[nodiscard]] bool empty() const { return sorted_.empty(); }
  [[nodiscard]] std::span<const Span> ascending() const { return sorted_; }
  /// The longest span than which at most this share of them, in [0, 1), is shorter, or as many as are shorter than
  /// `anyway`.
  [[nodiscard]] Span most(double share, Span anyway) const { return after(std::max(shorter(anyway), count(share))); }
  /// The longest span than which at most this share of them is shorter, beyond those that are shorter than `anyway`.
  [[nodiscard]] Span most_beyond(double share, Span anyway) const { return after(shorter(anyway) + count(share)); }
  /// The shortest span than which at most this share of them is longer, or as many as are longer than `anyway`.
  [[nodiscard]] Span least(double share, Span anyway) const {
    const auto longer = sorted_.end() - std::ranges::upper_bound(sorted_, anyway);
    const std::size_t allowed = std::max(static_cast<std::size_t>(longer), count(share));
    return allowed < sorted_.size() ? sorted_[sorted_.size() - 1 - allowed] : Span();
  }

 private:
  [[nodiscard]] std::size_t shorter(Span than) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(sorted_, than) - sorted_.begin());
  }
  /// The one that so many precede.
  [[nodiscard]] Span after(std::size_t preceding) const {
    return preceding < sorted_.size() ? sorted_[preceding] : Span::max();
  }
  [[nodiscard]] std::size_t count(double share) const {
    return static_cast<std::size_t>(share * static_cast<double>(sorted_.size()));
  }
  std::size_t kept_;
  std::size_t next_ = 0;  ///< the place of the oldest, once all are taken
  std::vector<Span> newest_;
  std::vector<Span> sorted_;
};

}  // namespace wattle::policy
