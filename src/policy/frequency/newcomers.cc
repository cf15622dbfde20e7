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

// If a prompt's own step leaves a slack s of ttft, a share 1 - s / d of the requests with such a prompt that arrive
// during a step of d are late. The sum of these shares over all recorded prompts grows with d: with the k prompts of
// least slack in it, it is k - (the sum of their slacks) / d.
Span Newcomers::budget(Span ttft, Span fastest) const {
  const auto longest_first = at_top_.ascending();
  const auto left_of = [&](std::size_t k) {
    return std::max((ttft - longest_first[longest_first.size() - 1 - k]).seconds(), 0.0);
  };
  double allowed = late_ * static_cast<double>(longest_first.size());
  for (std::size_t k = 0; k < longest_first.size() && left_of(k) < fastest.seconds(); ++k) {
    allowed += 1.0 - left_of(k) / fastest.seconds();
  }
  double left = 0.0;
  for (std::size_t k = 0; k < longest_first.size(); ++k) {
    const double lates = static_cast<double>(k) - allowed;
    if (lates > 0.0 && left / lates <= left_of(k)) return Span::from_seconds(left / lates);
    left += left_of(k);
  }
  const double lates = static_cast<double>(longest_first.size()) - allowed;
  return lates > 0.0 ? Span::from_seconds(left / lates) : Span::max();
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
