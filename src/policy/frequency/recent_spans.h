#pragma once
// A sliding window of durations, sorted by length, for quantiles.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "units/time.h"

namespace wattle::policy {

class RecentSpans {
 public:
  /// `kept`: size of the window, at least 1.
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

  /// All of them become this many times as long.
  void scale(double factor) {
    for (auto* spans : {&newest_, &sorted_}) {
      for (Span& span : *spans) span = Span::from_seconds(span.seconds() * factor);
    }
  }

  [[nodiscard]] bool empty() const { return sorted_.empty(); }
  [[nodiscard]] std::span<const Span> ascending() const { return sorted_; }
  /// The longest value such that the share of shorter spans is at most `share` (in [0, 1)), or at most the share that
  /// is shorter than `anyway`, whichever is larger.
  [[nodiscard]] Span most(double share, Span anyway) const { return after(std::max(shorter(anyway), count(share))); }
  /// The longest value such that the share of shorter spans is at most `share` plus the share that is shorter than
  /// `anyway`.
  [[nodiscard]] Span most_beyond(double share, Span anyway) const { return after(shorter(anyway) + count(share)); }
  /// The shortest value such that the share of longer spans is at most `share`, or at most the share that is longer
  /// than `anyway`, whichever is larger.
  [[nodiscard]] Span least(double share, Span anyway) const {
    const auto longer = sorted_.end() - std::ranges::upper_bound(sorted_, anyway);
    const std::size_t allowed = std::max(static_cast<std::size_t>(longer), count(share));
    return allowed < sorted_.size() ? sorted_[sorted_.size() - 1 - allowed] : Span();
  }

 private:
  [[nodiscard]] std::size_t shorter(Span than) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(sorted_, than) - sorted_.begin());
  }
  /// The span with this many shorter ones before it; max() if there are no more.
  [[nodiscard]] Span after(std::size_t preceding) const {
    return preceding < sorted_.size() ? sorted_[preceding] : Span::max();
  }
  [[nodiscard]] std::size_t count(double share) const {
    return static_cast<std::size_t>(share * static_cast<double>(sorted_.size()));
  }
  std::size_t kept_;
  std::size_t next_ = 0;  ///< index of the oldest in newest_, once the window is full
  std::vector<Span> newest_;
  std::vector<Span> sorted_;
};

}  // namespace wattle::policy
