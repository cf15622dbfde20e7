#pragma once
// What requests that are not there yet will need. Ours: docs/decisions/0044, 0047.
#include <array>
#include <cstddef>

#include "model/beliefs.h"
#include "policy/frequency/clock_choice.h"
#include "policy/frequency/recent_spans.h"

namespace wattle::policy {

/// A request that comes while a step runs waits for it, and then has a step with its prompt. One that comes while
/// there is no work begins at once, at whatever clock the idle GPU has: its step may be over before a command to raise
/// the clock has been carried out. What prompts come is known from the newest steps with prompts.
class Newcomers {
 public:
  /// `late`: share of first tokens, in [0, 1), that may be late beyond those that would be at the highest clock.
  explicit Newcomers(double late) : late_(late), at_top_(kKept) {}

  /// A step with prompts, and its time at the highest clock.
  void note(const StepShape& shape, Span fastest);
  /// What a step may take that at the highest clock takes `fastest`, so that of those who come meanwhile, at any moment
  /// of it, no more get a first token later than `ttft`.
  [[nodiscard]] Span budget(Span ttft, Span fastest) const;
  /// The lowest of `rule` at which prompts that come alone are computed in time; the lowest while none are known.
  /// Looks at them at most once a second.
  [[nodiscard]] MegaHertz idle_clock(const ClockRule& rule, const LatencyModel& latency, Instant now);

 private:
  static constexpr std::size_t kKept = 512;
  double late_;
  RecentSpans at_top_;
  std::array<StepShape, kKept> prompts_{};  ///< of the newest, without decodes
  std::size_t known_ = 0;
  std::size_t next_ = 0;
  MegaHertz idle_{0};
  Instant looked_at_;
};

}  // namespace wattle::policy
