#include "policy/frequency/newcomers.h"

#include <algorithm>
#include <span>

namespace wattle::policy {

static constexpr Span kBetweenLooks = Span::s(1);

void Newcomers::note(const StepShape& shape, Span fastest) {
  at_top_.add(fastest);
  StepShape& alone = prompts_[next_];
  alone = shape;
  alone.decode_requests = 0;
  alone.decode_kv_tokens = 0;
  next_ = (next_ + 1) % kKept;
  known_ = std::max(known_, next_ == 0 ? kKept : next_);
}

MegaHertz Newcomers::idle_clock(const ClockRule& rule, const LatencyModel& latency, Instant now) {
  if (known_ == 0 || rule.ttft == Span::max()) return rule.clocks.front();
  if (idle_ > MegaHertz{0} && now - looked_at_ < kBetweenLooks) return idle_;
  looked_at_ = now;
  const auto late_at = [&](MegaHertz clock) {
    return std::ranges::count_if(std::span(prompts_).first(known_), [&](const StepShape& prompts) {
      return latency.step_time(prompts, clock) > rule.ttft;
    });
  };
  const auto allowed = late_at(rule.clocks.back()) + static_cast<std::ptrdiff_t>(late_ * static_cast<double>(known_));
  idle_ = *std::ranges::find_if(rule.clocks, [&](MegaHertz clock) { return late_at(clock) <= allowed; });
  return idle_;
}

}  // namespace wattle::policy
