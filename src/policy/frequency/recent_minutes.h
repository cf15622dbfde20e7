#pragma once
// Counts of the last one to two minutes.
#include <utility>

#include "units/time.h"

namespace wattle::policy {

/// Counts of the present minute and of the one before it. Long enough to contain hundreds of late gaps if 1 % are late,
/// short enough to follow the load of a day. 60 to 1,200 s make no difference on the hour of the Azure trace.
template <typename Counts>
class RecentMinutes {
 public:
  /// `none`: counts of nothing, copied at each new minute; of the size that all have.
  explicit RecentMinutes(Counts none = {}) : recent(none), older(none), none_(std::move(none)) {}

  /// Call before counting, with times that do not decrease.
  void advance(Instant now) {
    if (since_ == Instant::never()) since_ = now;
    if (now - since_ < kMinute) return;
    older_lasted_ = now - since_;
    std::swap(older, recent);
    recent = none_;
    since_ = now;
  }
  /// How long both have lasted.
  [[nodiscard]] double seconds(Instant now) const { return (now - since_ + older_lasted_).seconds(); }
  [[nodiscard]] double sum(double Counts::*count) const { return recent.*count + older.*count; }

  Counts recent;
  Counts older;

 private:
  static constexpr Span kMinute = Span::s(60);
  Counts none_;
  Span older_lasted_;
  Instant since_ = Instant::never();
};

}  // namespace wattle::policy
