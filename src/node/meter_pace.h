#pragma once
// How often GPUs' meters are read: often during activity, rarely otherwise, so that an idle machine stays in its
// low-power states. Pure; time is an argument.
#include <algorithm>
#include <cstdlib>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::node {

class MeterPace {
 public:
  /// A mean reading's record has a slack of 200 ms (meter.cc): `idle` must stay below.
  static constexpr Span kIdle = Span::ms(150);
  static constexpr Span kStaysBusy = Span::s(2);  ///< after the last sign of work
  static constexpr std::int64_t kMoved = 20;      ///< activity: a change by more than 1 / kMoved of the power

  explicit MeterPace(Span busy) : busy_(busy) {}

  /// An engine has reported work.
  void worked(Instant now) { busy_until_ = std::max(busy_until_, now + kStaysBusy); }
  /// A GPU's previous and present power: any change counts as activity.
  void read(Milliwatts before, Milliwatts power, Instant now) {
    if (std::abs(power.value() - before.value()) * kMoved > before.value()) worked(now);
  }
  [[nodiscard]] bool idle(Instant now) const { return now >= busy_until_; }
  [[nodiscard]] Span pause(Instant now) const { return idle(now) ? std::max(busy_, kIdle) : busy_; }

 private:
  Span busy_;
  Instant busy_until_;
};

}  // namespace wattle::node
