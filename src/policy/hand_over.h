#pragma once
// First tokens that wait for a pass of the decode engine's loop (docs/decisions/0020).
#include <cstddef>

#include "units/time.h"

namespace wattle::policy {

/// Hand-overs that count: some seconds of a busy instance, and enough for a share of 1 % to be some.
inline constexpr std::size_t kHandOvers = 512;

/// How long a step at the decode instance may have been for a first token that waited `wait` > 0 where steps took
/// `step`, and had `left` of its objective: each wait is so many steps.
[[nodiscard]] inline Span step_borne(Span left, Span wait, Span step) {
  return Span::from_seconds(left.seconds() / wait.seconds() * step.seconds());
}

}  // namespace wattle::policy
