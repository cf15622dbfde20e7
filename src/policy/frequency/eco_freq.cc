#include "policy/frequency/eco_freq.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace wattle::policy {

namespace {

constexpr std::int64_t kAnyKv = std::numeric_limits<std::int64_t>::max();
/// No engine iteration takes this long; a prediction beyond it is a broken predictor, not a slow step.
constexpr Span kLongestBelievable = Span::s(600);

Span reserve(std::optional<Span> objective, double margin) {
  return objective ? Span::from_seconds(objective->seconds() * (1.0 - margin)) : Span::max();
}

}  // namespace

EcoFreq::EcoFreq(EcoFreqOptions options) : options_(std::move(options)) {
  WATTLE_CHECK(!options_.clocks.empty() && std::ranges::is_sorted(options_.clocks), "eco-freq's clocks ascend");
  WATTLE_CHECK(options_.margin >= 0.0 && options_.margin < 1.0, "eco-freq's margin is a share below 1");
  ttft_ = reserve(options_.slo.ttft, options_.margin);
  itl_ = reserve(options_.slo.itl, options_.margin);
}

Span EcoFreq::budget(const StepReport& step) const {
  Span allowed = Span::max();
  if (step.shape.prefill_tokens > 0 && ttft_ != Span::max()) {
    const bool known = step.oldest_scheduled_arrival < step.start;
    allowed = known ? ttft_ - (step.start - step.oldest_scheduled_arrival) : ttft_;
  }
  if (step.shape.decode_requests > 0) allowed = std::min(allowed, itl_);
  return allowed;
}

EcoFreq::Wish EcoFreq::disbelieve(const char* reason) {
  ++disbelieved_;
  return {options_.clocks.back(), reason, -1};
}

EcoFreq::Wish EcoFreq::wish(const InstanceView& view, const Beliefs& beliefs) {
  const MegaHertz top = options_.clocks.back();
  if (view.telemetry == Telemetry::Lost) return {top, "telemetry lost: maximum", -1};
  if (view.step.waiting_requests > 0) return {top, "requests wait: maximum", kAnyKv};
  if (beliefs.latency == nullptr) return disbelieve("no latency predictor: maximum");

  const StepShape& shape = view.step.shape;
  const Span allowed = budget(view.step);
  std::int64_t kv_tokens_max = kAnyKv;
  for (const MegaHertz clock : options_.clocks) {
    const Span predicted = beliefs.latency->step_time(shape, clock);
    if (predicted <= Span() || predicted > kLongestBelievable) {
      return disbelieve("predictor out of range: maximum");
    }
    // At the top, outgrowing the budget changes nothing. Clocks already too slow stay so as the KV cache grows, but
    // could leave the believable range.
    const bool enough = predicted <= allowed;
    if (!enough || clock != top) {
      const Span limit = enough ? std::min(allowed, kLongestBelievable) : kLongestBelievable;
      kv_tokens_max = std::min(kv_tokens_max, beliefs.latency->kv_tokens_within(shape, clock, limit));
    }
    if (enough) return {clock, "lowest clock within budget", kv_tokens_max};
  }
  return {top, "no clock within budget: maximum", kv_tokens_max};
}

ClockDecision EcoFreq::choose(const InstanceView& view, const Beliefs& beliefs, Instant now) {
  if (has_no_work(view)) {
    current_ = options_.idle_clock;
    return {current_, "idle", Hold::forever()};
  }
  Wish wanted = wish(view, beliefs);
  Hold hold{wanted.kv_tokens_max, Instant::never()};
  // Prompts make every step another batch: ask each time.
  if (view.step.shape.prefill_tokens > 0) hold.kv_tokens_max = -1;
  const bool first = current_ == MegaHertz{0};
  if (!first && wanted.clock < current_ && now < lower_from_) {
    hold.until = lower_from_;
    return {current_, "dwell after a raise", hold};
  }
  if (!first && wanted.clock > current_) lower_from_ = now + options_.dwell;
  current_ = wanted.clock;
  return {current_, wanted.reason, hold};
}

}  // namespace wattle::policy
