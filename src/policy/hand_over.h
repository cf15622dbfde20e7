#pragma once
// First tokens that wait for a pass of the decode engine's loop (docs/decisions/0020).
#include <cstddef>

#include "units/time.h"

namespace wattle::policy {

/// Number of recent hand-overs that count: some seconds of a busy instance, and enough that 1 % of them are several.
inline constexpr std::size_t kHandOvers = 512;

/// How long a step at the decode instance could have been for a first token that waited `wait` > 0 while steps took
/// `step` and had `left` of its objective: the wait is a number of steps. Returns left / wait x step.
[[nodiscard]] inline Span step_borne(Span left, Span wait, Span step) {
  return Span::from_seconds(left.seconds() / wait.seconds() * step.seconds());
}

}  // namespace wattle::policy
