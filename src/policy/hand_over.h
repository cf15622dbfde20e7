#pragma once
// First tokens that wait for a step of the decode engine (docs/decisions/0020).
#include <cstddef>

#include "units/time.h"

namespace wattle::policy {

/// Number of recent hand-overs that count: some seconds of a busy instance, and enough that 1 % of them are several.
inline constexpr std::size_t kHandOvers = 512;

/// How long a decode step could have been without making a first token late that waited `wait` > 0 with steps of
/// `step`, when `left` of its objective remained: the wait is a number of steps. Returns left / wait x step.
[[nodiscard]] inline Span step_borne(Span left, Span wait, Span step) {
  return Span::from_seconds(left.seconds() / wait.seconds() * step.seconds());
}

}  // namespace wattle::policy
