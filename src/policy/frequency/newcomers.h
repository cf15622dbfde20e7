#pragma once
// Time and clocks kept for requests that have not arrived yet. Ours: docs/decisions/0044, 0047.
#include <array>
#include <cstddef>

#include "model/beliefs.h"
#include "policy/frequency/clock_choice.h"
#include "policy/frequency/recent_spans.h"

namespace wattle::policy {

/// A request that arrives while a step runs waits for its end, and then for the step with its own prompt. A request
/// that arrives at an idle instance starts at once, at the idle GPU's clock: its step may be over before a command to
/// raise the clock takes effect. The newest 512 steps with prompts stand for the prompts that will arrive.
class Newcomers {
 public:
  /// `late`: share of first tokens, in [0, 1), that may be late in addition to those late at the highest clock.
  explicit Newcomers(double late) : late_(late), at_top_(kKept) {}

  /// Records a step with prompts and its predicted time at the highest clock.
  void note(const StepShape& shape, Span fastest);
  /// The longest time for a step, which takes `fastest` at the highest clock, such that of the requests that arrive
  /// during it (uniformly) no larger share misses `ttft` than `late` allows.
  [[nodiscard]] Span budget(Span ttft, Span fastest) const;
  /// The lowest clock of `rule` at which recorded prompts, each alone, meet TTFT; the lowest while none are recorded.
  /// Computed at most once a second.
  [[nodiscard]] MegaHertz idle_clock(const ClockRule& rule, const LatencyModel& latency, Instant now);

 private:
  static constexpr std::size_t kKept = 512;
  double late_;
  RecentSpans at_top_;
  std::array<StepShape, kKept> prompts_{};  ///< of recorded steps, without their decodes
  std::size_t known_ = 0;
  std::size_t next_ = 0;
  MegaHertz idle_{0};
  Instant looked_at_;
};

}  // namespace wattle::policy
