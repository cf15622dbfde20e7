#include "policy/frequency/prefill_load.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

PrefillLoad::PrefillLoad(std::span<const MegaHertz> clocks, const LatencyModel& latency)
    : clocks_(clocks.begin(), clocks.end()), latency_(&latency), counts_({std::vector<double>(clocks.size())}) {
  WATTLE_CHECK(!clocks_.empty(), "a load is carried by clocks");
}

void PrefillLoad::note(const StepShape& shape, Instant start, Instant now) {
  counts_.advance(now);
  if (shape.prefill_tokens == 0 || start == newest_) return;
  newest_ = start;
  for (std::size_t c = 0; c < clocks_.size(); ++c) {
    counts_.recent.busy_s[c] +=
        std::clamp(latency_->step_time(shape, clocks_[c]), Span(), kLongestBelievable).seconds();
  }
}

MegaHertz PrefillLoad::least(Instant now) const {
  const double time = counts_.seconds(now);
  for (std::size_t c = 0; c < clocks_.size(); ++c) {
    if (counts_.recent.busy_s[c] + counts_.older.busy_s[c] < time) return clocks_[c];
  }
  return clocks_.back();
}

}  // namespace wattle::policy
