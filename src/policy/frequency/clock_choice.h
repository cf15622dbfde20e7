#pragma once
// The one rule by which EcoFreq picks a clock, as a pure function, so that a router can ask what EcoFreq would do.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/clock_setting.h"

namespace wattle::policy {

/// Where prompts wait for prompts: so many of the longest steps fit into a first token's objective.
inline constexpr std::int64_t kStepsOfAFirstToken = 4;

/// What is left of an objective; max() where it is absent or max() itself. `margin`: a share of it, in [0, 1).
[[nodiscard]] inline Span reserve(std::optional<Span> objective, double margin) {
  if (!objective || *objective == Span::max()) return Span::max();
  return Span::from_seconds(objective->seconds() * (1.0 - margin));
}

/// F and what a step may take, after the margin.
struct ClockRule {
  std::vector<MegaHertz> clocks;  ///< F, ascending, not empty
  Span ttft = Span::max();        ///< of a step with prompt tokens, less their longest wait
  Span itl = Span::max();         ///< of a step with decodes
  bool raises_in_vain = true;     ///< to max(F) where no clock meets the budget, though a lower one is as fast
};

/// `clocks` on this instance, equal ones once, and its objectives less `margin`, a share in [0, 1); an absent objective
/// bounds nothing. Clocks that do not ascend, or none, are a programming error.
[[nodiscard]] ClockRule make_clock_rule(std::span<const ClockSetting> clocks, const InstanceSpec& spec, double margin,
                                        bool raises_in_vain = true);

/// How instances choose their clocks, for a router that asks.
struct ClocksOfInstances {
  std::vector<ClockSetting> clocks;  ///< F of EcoFreq; empty: clocks are taken to stay as commanded
  double margin = 0.0;               ///< EcoFreq's
  bool raises_in_vain = true;        ///< EcoFreq's
};

struct ClockChoice {
  MegaHertz clock;
  const char* reason = "";
  bool predicted = false;  ///< made by prediction; otherwise whatever the step's shape says
  bool within = false;     ///< the clock's predicted time meets the budget
  bool believed = true;    ///< false: the predictor was absent or answered nonsense, hence max(F)
};

/// The lowest of so many clocks from which on up no predicted time is longer than the highest clock's. Predictions err
/// by some tenths of a percent, so a single lower clock may seem to be faster than those above it. `time(c)` of clock
/// c.
template <typename Time>
[[nodiscard]] std::size_t lowest_as_fast(std::size_t clocks, const Time& time) {
  std::size_t lowest = clocks - 1;
  const auto least = time(lowest);
  while (lowest > 0 && time(lowest - 1) <= least) --lowest;
  return lowest;
}

/// No engine iteration takes this long; a prediction beyond it is a broken predictor, not a slow step.
inline constexpr Span kLongestBelievable = Span::s(600);

/// Any waiting request: max(F). Otherwise the lowest clock of F whose predicted step time is <= `budget`; if there is
/// none, max(F), or without raises_in_vain the lowest that is as fast (lowest_as_fast). An absent predictor, or one
/// that answers <= 0 or more than 10 minutes: max(F), not believed.
[[nodiscard]] ClockChoice clock_for(const ClockRule& rule, const StepShape& shape, std::int32_t waiting_requests,
                                    Span budget, const LatencyModel* latency);

}  // namespace wattle::policy
