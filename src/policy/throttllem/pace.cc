#include "policy/throttllem/pace.h"

#include <algorithm>

namespace wattle::policy {

void Pace::step(const StepReport& report, MegaHertz clock, const LatencyModel& latency) {
  constexpr double kMemoryS = 60.0;
  const std::int64_t steps = report.sequence - last_.sequence;
  const double elapsed = (report.start - last_.start).seconds();
  if (running_ && steps > 0 && elapsed > 0.0) {
    StepShape mean;  // of those iterations, their prompts left out
    mean.decode_requests = last_.shape.decode_requests + last_.shape.prefill_requests;
    mean.decode_kv_tokens =
        last_.shape.decode_kv_tokens + last_.shape.prefill_tokens + steps * mean.decode_requests / 2;
    const Span predicted = latency.step_time(mean, clock);
    if (predicted > Span() && predicted < Span::s(600)) {
      const double seen = std::clamp(elapsed / (predicted.seconds() * static_cast<double>(steps)), 1.0, kMost);
      ratio_ += elapsed / (elapsed + kMemoryS) * (seen - ratio_);
    }
  }
  last_ = report;
  running_ = true;
}

}  // namespace wattle::policy
