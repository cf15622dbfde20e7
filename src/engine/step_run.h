#pragma once
// A run of steps of one batch as a closed form, in fixed point (2^-20 ns).
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/wide.h"
#include "engine/step_model.h"
#include "units/time.h"

namespace wattle::engine {

[[nodiscard]] constexpr Int128 to_fixed(Instant t) { return Int128{t.ns()} << kTimeFractionBits; }
[[nodiscard]] constexpr Int128 to_fixed(Span d) { return Int128{d.ns()} << kTimeFractionBits; }
[[nodiscard]] constexpr Instant to_instant(Int128 fixed) {
  return Instant(static_cast<std::int64_t>(fixed >> kTimeFractionBits));
}

/// A token gap as counters store it, saturated at 2^63 fixed point (8796 s).
[[nodiscard]] constexpr std::int64_t gap_of(Int128 fixed) {
  return static_cast<std::int64_t>(std::min(fixed, Int128{std::numeric_limits<std::int64_t>::max()}));
}

/// `steps` steps from `start`, the i-th takes first + i x increment. No step in progress: steps 0.
struct StepRun {
  Int128 start = 0;
  std::int64_t first = 0;
  std::int64_t increment = 0;
  std::int64_t steps = 0;

  /// When `done` steps are done.
  [[nodiscard]] constexpr Int128 after(std::int64_t done) const {
    return start + Int128{first} * done + Int128{increment} * (Int128{done} * (done - 1) / 2);
  }
  [[nodiscard]] constexpr Instant begin_of(std::int64_t step) const { return to_instant(after(step)); }
  [[nodiscard]] constexpr Instant end() const { return to_instant(after(steps)); }
  /// Number of its steps that have ended by `now`.
  [[nodiscard]] std::int64_t done_by(Instant now) const;
  /// The rest of the run, after `done` steps.
  [[nodiscard]] constexpr StepRun from(std::int64_t done) const {
    return {after(done), first + increment * done, increment, steps - done};
  }
};

}  // namespace wattle::engine
