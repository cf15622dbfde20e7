#pragma once
// EcoFreq's choice of a clock as a pure function, so that routing policies can predict it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/clock_setting.h"

namespace wattle::policy {

/// Where prompts wait for other prompts' steps, the longest step may take this fraction (1/4) of the TTFT objective.
inline constexpr std::int64_t kStepsOfAFirstToken = 4;

/// The objective less its margin; max() if the objective is absent or max(). `margin`: a share of it, in [0, 1).
[[nodiscard]] inline Span reserve(std::optional<Span> objective, double margin) {
  if (!objective || *objective == Span::max()) return Span::max();
  return Span::from_seconds(objective->seconds() * (1.0 - margin));
}

/// The clocks to choose from (F), and the time budgets of a step, after the margin.
struct ClockRule {
  std::vector<MegaHertz> clocks;  ///< F, ascending, not empty
  Span ttft = Span::max();        ///< for steps with prompt tokens, from which their longest wait is subtracted
  Span itl = Span::max();         ///< for steps with prompts and decodes
  Span mean_gap = Span::max();    ///< for steps of decodes alone, which are alike: so long a mean gap is permitted
  bool raises_in_vain = true;     ///< if no clock meets the budget: max(F), even if a lower clock is as fast
};

/// `clocks` in MHz on this instance, without duplicates, and its objectives less `margin`, a share in [0, 1); an absent
/// objective sets no bound. An empty list, or clocks that do not ascend, are a programming error.
[[nodiscard]] ClockRule make_clock_rule(std::span<const ClockSetting> clocks, const InstanceSpec& spec, double margin,
                                        bool raises_in_vain = true);

/// How instances choose their clocks, for routing policies.
struct ClocksOfInstances {
  std::vector<ClockSetting> clocks;  ///< EcoFreq's F; empty: clocks are assumed to stay as commanded
  double margin = 0.0;               ///< EcoFreq's
  bool raises_in_vain = true;        ///< EcoFreq's
};

/// The clock at which a step begins, and how long a command that is given then takes to change it.
struct Present {
  MegaHertz clock{0};  ///< 0: not known
  Span delay;          ///< 0: clocks change at once
};

/// Time of a step that would take `at_present` at the clock at which it begins, and `after` at the one that applies
/// after `delay`.
[[nodiscard]] inline Span raised_time(Span at_present, Span after, Span delay) {
  if (at_present <= delay) return at_present;
  return delay + Span::from_seconds((1.0 - delay.seconds() / at_present.seconds()) * after.seconds());
}

struct ClockChoice {
  MegaHertz clock;
  const char* reason = "";
  bool predicted = false;  ///< decided by a prediction; false: the step's shape did not matter
  bool within = false;     ///< the clock's predicted time meets the budget
  bool believed = true;    ///< false: the predictor was absent or implausible, so max(F) was chosen
};

/// No engine iteration takes this long; a longer prediction is considered implausible.
inline constexpr Span kLongestBelievable = Span::s(600);

/// A predicted step time as something to compute with: never so short that dividing by it is unsafe.
[[nodiscard]] inline double believed_seconds(const LatencyModel& latency, const StepShape& shape, MegaHertz clock) {
  return std::clamp(latency.step_time(shape, clock), Span::us(1), kLongestBelievable).seconds();
}

/// The place among `clocks`, ascending, of this one; of the next higher (else the highest) if it is not among them.
[[nodiscard]] inline std::size_t place_of(std::span<const MegaHertz> clocks, MegaHertz clock) {
  const auto at = std::ranges::lower_bound(clocks, clock) - clocks.begin();
  return std::min(static_cast<std::size_t>(at), clocks.size() - 1);
}

/// Of clocks 0 to `clocks` - 1, ascending, with predicted times `time(c)`: the lowest such that neither it nor any
/// above is slower than the highest. Predictions err by some tenths of a percent, so a single lower clock may seem as
/// fast.
template <typename Time>
[[nodiscard]] std::size_t lowest_as_fast(std::size_t clocks, const Time& time) {
  std::size_t lowest = clocks - 1;
  const auto least = time(lowest);
  while (lowest > 0 && time(lowest - 1) <= least) --lowest;
  return lowest;
}

/// If requests wait: max(F). Otherwise the lowest clock of F whose predicted step time is <= `budget`. If there is
/// none: max(F), or without raises_in_vain the lowest clock that is as fast (lowest_as_fast). If the predictor is
/// absent, or answers <= 0 or more than 10 minutes: max(F), with `believed` false.
/// A clock above the present one applies only after the delay: the step's time at it is raised_time(). If that is over
/// the budget even at max(F): max(F). A step that ends within the delay gets the clock that steps like it need.
[[nodiscard]] ClockChoice clock_for(const ClockRule& rule, const StepShape& shape, std::int32_t waiting_requests,
                                    Span budget, const LatencyModel* latency, const Present& present = {});

}  // namespace wattle::policy
