#include "engine/step_run.h"

namespace wattle::engine {

std::int64_t StepRun::done_by(Instant now) const {
  const Int128 limit = to_fixed(now + Span::ns(1));
  std::int64_t low = 0;
  std::int64_t high = steps + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (after(middle) < limit ? low : high) = middle;
  }
  return low;
}

}  // namespace wattle::engine
