#include "policy/frequency/eco_freq.h"

#include <algorithm>
#include <limits>

namespace wattle::policy {

namespace {

constexpr std::int64_t kAnyKv = std::numeric_limits<std::int64_t>::max();
/// Hand-overs that count: some seconds of a busy instance, and enough for a share of 1 % to be some.
constexpr std::size_t kHandOvers = 512;
/// A step that takes so much longer than the ITL objective does so although predictions err and loads vary.
constexpr double kClearly = 1.05;

}  // namespace

EcoFreq::EcoFreq(const EcoFreqOptions& options, const InstanceSpec& spec)
    : rule_(make_clock_rule(options.clocks, spec, options.margin)),
      idle_clock_(options.park_idle ? options.idle_clock.on(spec) : rule_.clocks.front()),
      dwell_(options.dwell),
      window_(options.window),
      step_yield_(spec.role == Role::Decode ? options.step_yield : 0.0),
      itl_lost_(spec.slo.gap() ? Span::from_seconds(spec.slo.gap()->seconds() * kClearly) : Span::max()),
      late_handovers_(spec.slo.ttft && spec.role != Role::Colocated ? options.late_handovers : 0.0),
      prefills_(spec.role == Role::Prefill),
      handovers_(kHandOvers) {}

Span EcoFreq::fastest(const InstanceView& view) const {
  const LatencyModel* latency = view.spec->beliefs.latency;
  const Span predicted = latency != nullptr ? latency->step_time(view.step.shape, rule_.clocks.back()) : Span();
  return std::clamp(predicted, Span(), kLongestBelievable);
}

Span EcoFreq::budget(const InstanceView& view) const {
  const StepReport& step = view.step;
  Span allowed = Span::max();
  if (step.shape.prefill_tokens > 0 && rule_.ttft != Span::max()) {
    const bool known = step.oldest_scheduled_arrival < step.start;
    allowed = known ? rule_.ttft - (step.start - step.oldest_scheduled_arrival) : rule_.ttft;
    if (prefills_ && !handovers_.empty()) {
      const Span least = fastest(view);
      allowed -= handovers_.least(late_handovers_, allowed - least);
      // As long as this step is longer, prompts that come meanwhile wait longer, too.
      if (allowed > least) allowed = least + Span((allowed - least).ns() / 2);
    }
  }
  if (step.shape.decode_requests > 0) {
    const bool yields = step_yield_ > 0.0 && view.tokens_per_step > 1.0 && fastest(view) > itl_lost_;
    const double tokens = yields ? 1.0 + step_yield_ * (view.tokens_per_step - 1.0) : 1.0;
    allowed = std::min(allowed, yields ? Span::from_seconds(rule_.itl.seconds() * tokens) : rule_.itl);
    if (!prefills_ && !handovers_.empty()) allowed = std::min(allowed, handovers_.most(late_handovers_, fastest(view)));
  }
  return allowed;
}

void EcoFreq::handed_over(Span age, Span wait) {
  if (late_handovers_ <= 0.0 || wait <= Span()) return;
  if (prefills_) return handovers_.add(wait);
  if (step_ <= Span()) return;
  // Nothing would have saved one that was late before; it says nothing of steps.
  if (age >= rule_.ttft) return;
  handovers_.add(Span::from_seconds((rule_.ttft - age).seconds() / wait.seconds() * step_.seconds()));
}

void EcoFreq::note_step(const InstanceView& view) {
  if (late_handovers_ <= 0.0 || prefills_) return;
  const LatencyModel* latency = view.spec->beliefs.latency;
  const Span predicted = latency != nullptr ? latency->step_time(view.step.shape, current_) : Span();
  step_ = predicted <= kLongestBelievable ? predicted : Span();
}

EcoFreq::Wish EcoFreq::wish(const InstanceView& view) {
  const MegaHertz top = rule_.clocks.back();
  if (view.telemetry == Telemetry::Lost) return {top, "telemetry lost: maximum", -1};

  const LatencyModel* latency = view.spec->beliefs.latency;
  const StepShape& shape = view.step.shape;
  const Span allowed = budget(view);
  const ClockChoice choice = clock_for(rule_, shape, view.step.waiting_requests, allowed, latency);
  if (!choice.believed) {
    ++disbelieved_;
    return {choice.clock, choice.reason, -1};
  }
  std::int64_t kv_tokens_max = kAnyKv;
  if (!choice.predicted) return {choice.clock, choice.reason, kv_tokens_max};
  for (const MegaHertz clock : rule_.clocks) {
    // At the top, outgrowing the budget changes nothing. Clocks already too slow stay so as the KV cache grows, but
    // could leave the believable range.
    const bool enough = choice.within && clock == choice.clock;
    if (!enough || clock != top) {
      const Span limit = enough ? std::min(allowed, kLongestBelievable) : kLongestBelievable;
      kv_tokens_max = std::min(kv_tokens_max, latency->kv_tokens_within(shape, clock, limit));
    }
    if (enough) break;
  }
  return {choice.clock, choice.reason, kv_tokens_max};
}

ClockDecision EcoFreq::choose(const InstanceView& view, Instant now) {
  const bool windowed = window_ > Span() && view.telemetry != Telemetry::Lost;
  if (windowed && now < window_end_) return {current_, "within the window", Hold{kAnyKv, window_end_}};
  ClockDecision decision = decide(view, now);
  if (windowed) {
    window_end_ = now + window_;
    if (!has_no_work(view)) decision.hold = Hold{kAnyKv, window_end_};
  }
  return decision;
}

ClockDecision EcoFreq::overrun(const InstanceView&, Instant now) {
  current_ = rule_.clocks.back();
  lower_from_ = now + dwell_;
  return {current_, "step overran its prediction: maximum", {}};
}

ClockDecision EcoFreq::decide(const InstanceView& view, Instant now) {
  if (has_no_work(view)) {
    current_ = idle_clock_;
    return {current_, "idle", Hold::forever()};
  }
  Wish wanted = wish(view);
  Hold hold{wanted.kv_tokens_max, Instant::never()};
  // Prompts make every step another batch: ask each time.
  if (view.step.shape.prefill_tokens > 0) hold.kv_tokens_max = -1;
  const bool first = current_ == MegaHertz{0};
  if (!first && wanted.clock < current_ && now < lower_from_) {
    hold.until = lower_from_;
    note_step(view);
    return {current_, "dwell after a raise", hold};
  }
  if (!first && wanted.clock > current_) lower_from_ = now + dwell_;
  current_ = wanted.clock;
  note_step(view);
  return {current_, wanted.reason, hold};
}

}  // namespace wattle::policy
