#pragma once
// How long an instance's steps take compared with what is believed of them.
#include <algorithm>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// Beliefs are of a kind of instance. One of them may be slower than its kind: a GPU that is too hot runs below its
/// lock, another process has its host's CPU. A limit on the clock does not show in steps that are locked below it, so
/// what was measured at a higher clock stays valid for a minute, unless a step at a lower one was slower still.
class Pace {
 public:
  /// A step locked at `clock` took `times` as long as predicted. The newest eight or so count.
  void measured(double times, MegaHertz clock, Instant now) {
    const bool known = valid(now);
    if (known && clock < clock_ && times < times_) return;
    if (!known) times_ = 1.0;
    times_ += (std::min(times, kMost) - times_) / 8.0;
    clock_ = clock;
    at_ = now;
  }
  /// How many times as long as predicted its steps take, at least 1. Without measurements: 1.
  [[nodiscard]] double slowed(Instant now) const { return valid(now) ? std::max(times_, 1.0) : 1.0; }

 private:
  static constexpr double kMost = 4.0;  ///< a single hiccup says little
  [[nodiscard]] bool valid(Instant now) const { return at_ != Instant::never() && now - at_ < Span::s(60); }

  double times_ = 1.0;
  MegaHertz clock_{0};
  Instant at_ = Instant::never();
};

}  // namespace wattle
