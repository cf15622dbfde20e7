#include "engine/step_run.h"

#include <algorithm>

namespace wattle::engine {

std::int64_t StepRun::done_by(Instant now) const {
  const Int128 limit = to_fixed(now + Span::ns(1));
  std::int64_t low = 0;
  std::int64_t high = steps + 1;
  const Int128 left = limit - start;
  // None is shorter than the first: what that leaves to search is little.
  if (first > 0 && increment >= 0 && left > 0 && left <= INT64_MAX)
    high = std::min(high, static_cast<std::int64_t>(left) / first + 1);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (after(middle) < limit ? low : high) = middle;
  }
  return low;
}

}  // namespace wattle::engine
