#include "policy/frequency/eco_freq.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/prompt_steps.h"
#include "policy/hand_over.h"

namespace wattle::policy {

namespace {

constexpr std::int64_t kAnyKv = std::numeric_limits<std::int64_t>::max();
/// A step predicted to be this much over the ITL objective is over it despite prediction errors.
constexpr double kClearly = 1.05;
/// How much stricter the price becomes with each late request: with 1 % more late requests than allowed, 1,000 requests
/// lower late_tokens by a fifth (docs/decisions/0038).
constexpr double kStricterEach = 0.02;
/// As many times more where recent requests, so many that kRecentLate of them may be late, were late more or less often
/// than chance explains: by the excess in standard deviations (docs/decisions/0059).
constexpr double kMostTimes = 5.0;
constexpr double kRecentLate = 15.0;
/// First late_tokens falls, to exp(-4) of its value; then the price's floor rises over as many stages.
constexpr double kStages = 4.0;

}  // namespace

EcoFreq::EcoFreq(const EcoFreqOptions& options, const InstanceSpec& spec)
    : options_(options),
      step_yield_(spec.role == Role::Decode ? options.step_yield : 0.0),
      prefills_(spec.role == Role::Prefill),
      handovers_(kHandOvers) {
  keep(spec);
  idle_clock_ = options.park_idle ? options.idle_clock.on(spec) : rule_.clocks.front();
}

void EcoFreq::keep(const InstanceSpec& spec) {
  keep_gaps(spec);
  clock_delay_ = options_.raises_take_time ? spec.clock_delay : Span();
  late_handovers_ = spec.slo.ttft && spec.role != Role::Colocated ? options_.late_handovers : 0.0;
  handovers_ = RecentSpans(kHandOvers);
  newcomers_.reset();
  // Engines' reports do not say which requests' prompts a step computes, so their TTFTs are known only if equal.
  const bool same_ttft = rule_.ttft < Span::max() && !spec.slo.ttft_varies;
  if (options_.newcomers && same_ttft) newcomers_.emplace(late_share(options_.late_tokens, spec.slo.ttft_of_answers));
  price_.reset();
  const Beliefs& believed = spec.beliefs;
  const bool weighs = options_.late_tokens > 0.0 && spec.role == Role::Colocated && spec.slo.gap();
  load_.reset();
  if (options_.carries_load && spec.role == Role::Decode && spec.slo.gap() && believed.latency != nullptr) {
    load_.emplace(rule_.clocks, options_.late_tokens, spec);
  }
  prefill_load_.reset();
  if (options_.carries_load && prefills_ && believed.latency != nullptr) {
    prefill_load_.emplace(rule_.clocks, *believed.latency);
  }
  if (weighs && believed.latency != nullptr && believed.power != nullptr) {
    price_.emplace(rule_.clocks, options_.late_tokens, spec, clock_delay_);
    hold_price();
  }
}

void EcoFreq::keep_gaps(const InstanceSpec& spec) {
  slo_ = spec.slo;
  rule_ = make_clock_rule(options_.clocks, spec, options_.margin, options_.raises_in_vain);
  itl_lost_ = Span::from_seconds(spec.slo.mean_gap().value_or(kLongestBelievable).seconds() * kClearly);
  held_requests_ = 0;
}

void EcoFreq::held_to(const InstanceView& view, const Slo& slo) {
  InstanceSpec spec = *view.spec;
  spec.slo = slo;
  Slo before = slo_;
  if (before.tbt && slo.tbt) {
    before.tbt = slo.tbt;
    before.tbt_of_answers = slo.tbt_of_answers;
  }
  if (before == slo) {
    keep_gaps(spec);
    if (price_) price_->hold_mean_gap_to(slo);
  } else {
    keep(spec);
  }
  window_end_ = Instant();
}

Span EcoFreq::fastest(const InstanceView& view) const {
  const LatencyModel* latency = view.spec->beliefs.latency;
  const Span predicted = latency != nullptr ? latency->step_time(view.step.shape, rule_.clocks.back()) : Span();
  return std::clamp(predicted, Span(), kLongestBelievable);
}

Span EcoFreq::prompt_budget(const InstanceView& view) const {
  const StepReport& step = view.step;
  if (step.shape.prefill_tokens == 0 || rule_.ttft == Span::max()) return Span::max();
  const bool known = step.oldest_scheduled_arrival < step.start;
  Span allowed = known ? rule_.ttft - (step.start - step.oldest_scheduled_arrival) : rule_.ttft;
  if (prefills_ && late_handovers_ > 0.0) {
    const Span least = fastest(view);
    allowed -= handovers_.least(late_handovers_, allowed - least);
    // Requests that arrive during this step wait for it, and then for a step as long as the queue that it made.
    const Span theirs = rule_.ttft - handovers_.least(late_handovers_, rule_.ttft - least - least);
    allowed = std::min(allowed, std::max(Span(theirs.ns() / kStepsOfAFirstToken), least));
  }
  return within_chunks(step, allowed, view.spec->beliefs.latency);
}

Span EcoFreq::within_chunks(const StepReport& step, Span allowed, const LatencyModel* latency) const {
  if (!options_.later_chunks || step.unfinished_prompt_tokens <= 0 || latency == nullptr) return allowed;
  const StepShape& now = step.shape;
  StepShape rest = now;
  rest.prefill_requests = 1;
  rest.prefill_tokens = step.unfinished_prompt_tokens;
  // Its context: what this step's tokens have read in the mean, this step's and half its own.
  const std::int64_t before = now.prefill_context_tokens / now.prefill_tokens + now.prefill_tokens / 2;
  rest.prefill_context_tokens = rest.prefill_tokens * (before + rest.prefill_tokens / 2);
  const auto at_top = [&](const StepShape& shape) {
    return std::clamp(latency->step_time(shape, rule_.clocks.back()), Span::ns(1), kLongestBelievable).seconds();
  };
  const double share = at_top(now) / (at_top(now) + at_top(rest));
  const Span newest = now.prefill_requests > 1 ? rule_.ttft : allowed;
  return std::min(allowed, Span::from_seconds(newest.seconds() * share));
}

Span EcoFreq::gap_budget(const InstanceView& view) const {
  const bool yields = step_yield_ > 0.0 && view.tokens_per_step > 1.0 && fastest(view) > itl_lost_;
  const double tokens = yields ? 1.0 + step_yield_ * (view.tokens_per_step - 1.0) : 1.0;
  const Span each = view.step.shape.prefill_tokens > 0 ? rule_.itl : rule_.mean_gap;
  return yields ? Span::from_seconds(each.seconds() * tokens) : each;
}

Span EcoFreq::decode_budget(const InstanceView& view) const {
  const Span left = view.spec->slo.itl ? std::max(rule_.itl - before_, Span()) : Span::max();
  if (view.step.shape.decode_requests == 0) {
    if (after_ <= Span() || left == Span::max()) return Span::max();
    // Steps of both kinds take longer alike as the clock falls.
    return Span::from_seconds(left.seconds() * (fastest(view).seconds() / (fastest(view) + after_).seconds()));
  }
  const Span allowed = before_ > Span() ? std::min(gap_budget(view), left) : gap_budget(view);
  if (prefills_ || handovers_.empty()) return allowed;
  return std::min(allowed, handovers_.most(late_handovers_, fastest(view)));
}

void EcoFreq::handed_over(Span age, Span wait) {
  if (late_handovers_ <= 0.0 || wait <= Span()) return;
  if (prefills_) return handovers_.add(wait);
  if (step_ <= Span()) return;
  // A request that was late before the hand-over says nothing about how long steps may take.
  if (age >= rule_.ttft) return;
  handovers_.add(step_borne(rule_.ttft - age, wait, step_));
}

void EcoFreq::finished(ClassId request_class, std::int64_t requests, std::int64_t late) {
  if (!price_ || options_.late_requests <= 0.0) return;
  const auto c = static_cast<std::size_t>(std::max(request_class.value(), 0));
  const auto& of = options_.late_requests_of;
  const double allowed = c < of.size() ? of[c] : options_.late_requests;
  const double may_be_late = allowed * static_cast<double>(requests);
  const double more = static_cast<double>(late) - may_be_late;
  const double kept = std::exp(-may_be_late / kRecentLate);
  recent_may_ = recent_may_ * kept + may_be_late;
  recent_more_ = recent_more_ * kept + more;
  const double deviations = std::abs(recent_more_) / std::sqrt(std::max(recent_may_, 1.0));
  const double step = kStricterEach * std::clamp(deviations, 1.0, kMostTimes);
  stricter_ = std::clamp(stricter_ + step * more, 0.0, 2.0 * kStages);
  hold_price();
}

void EcoFreq::hold_price() {
  const double beyond = std::max(stricter_ - kStages, 0.0) / kStages;
  price_->hold_to(options_.late_tokens * std::exp(-std::min(stricter_, kStages)), beyond);
}

void EcoFreq::note_step(const InstanceView& view) {
  if (late_handovers_ <= 0.0 || prefills_) return;
  const LatencyModel* latency = view.spec->beliefs.latency;
  const Span predicted = latency != nullptr ? latency->step_time(view.step.shape, current_) : Span();
  step_ = predicted <= kLongestBelievable ? predicted : Span();
}

MegaHertz EcoFreq::for_those_who_wait(const InstanceView& view, Instant now) {
  const StepReport& step = view.step;
  if (step.waiting_requests == 0) {
    waiting_since_ = Instant::never();
    return rule_.clocks.front();
  }
  // They arrived during the last step at the earliest, and after those that no longer wait (FIFO).
  if (waiting_since_ == Instant::never()) waiting_since_ = now - fastest(view);
  if (step.shape.prefill_tokens > 0 && step.oldest_scheduled_arrival < step.start) {
    waiting_since_ = std::max(waiting_since_, step.oldest_scheduled_arrival);
  }
  // Requests for which the engine or its KV cache has no room wait until others finish.
  const InstanceSpec& spec = *view.spec;
  const std::int64_t room = spec.kv_capacity_tokens - step.kv_tokens;
  const bool for_room = (spec.kv_capacity_tokens > 0 && step.waiting_prompt_tokens > room) ||
                        step.shape.decode_requests + step.shape.prefill_requests >= spec.max_requests;
  if (for_room || step.waiting_prompt_tokens <= 0) return rule_.clocks.back();
  const PromptSteps theirs = prompt_steps(spec, step.shape, step.waiting_requests, step.waiting_prompt_tokens);
  const LatencyModel* latency = spec.beliefs.latency;
  const auto both = [&](MegaHertz clock) {
    const Span first = std::clamp(latency->step_time(step.shape, clock), Span(), kLongestBelievable);
    const Span each = std::clamp(latency->step_time(theirs.step, clock), Span(), kLongestBelievable);
    const double all_s = std::min(each.seconds() * theirs.steps, kLongestBelievable.seconds());
    return first + Span::from_seconds(all_s);
  };
  const Span left = rule_.ttft - (now - waiting_since_);
  const Span least = both(rule_.clocks.back());
  // Half of the remaining time is kept for requests that arrive during the step.
  const Span allowed = least + Span((left - least).ns() / 2);
  if (left <= least) return rule_.clocks.back();
  return *std::ranges::find_if(rule_.clocks, [&](MegaHertz clock) { return both(clock) <= allowed; });
}

Span EcoFreq::newcomers_budget(const InstanceView& view) const {
  return newcomers_ ? newcomers_->budget(rule_.ttft, fastest(view)) : Span::max();
}

void EcoFreq::follow_gaps(const InstanceView& view) {
  const StepReport& step = view.step;
  before_ = paused_since_ == Instant::never() ? Span() : step.start - paused_since_;
  if (step.shape.decode_requests > 0) {
    paused_ = step.shape;
    paused_since_ = Instant::never();
  } else if (step.shape.idle()) {
    paused_ = {};
    paused_since_ = Instant::never();
    before_ = Span();
  } else if (paused_.decode_requests > 0 && paused_since_ == Instant::never()) {
    paused_since_ = step.start;
  }
  after_ = Span();
  if (paused_since_ == Instant::never()) return;
  const Span next = view.spec->beliefs.latency->step_time(paused_, rule_.clocks.back());
  after_ = std::clamp(next, Span::ns(1), kLongestBelievable);
}

EcoFreq::Wish EcoFreq::priced(const InstanceView& view, Instant now, Span prompts, Span decodes,
                              const ClockChoice& within_both) {
  const StepShape& shape = view.step.shape;
  const std::int32_t waiting = view.step.waiting_requests;
  const LatencyModel* latency = view.spec->beliefs.latency;
  const StepReport& step = view.step;
  const auto least = price_->choose({.shape = shape,
                                     .waiting = waiting,
                                     .full = step.unfinished_prompt_tokens > 0,
                                     .prompts = prompts,
                                     .waited = std::max(step.start - step.oldest_scheduled_arrival, Span()),
                                     .before = before_,
                                     .after = after_},
                                    now);
  const MegaHertz hurried = for_those_who_wait(view, now);
  const Span newcomers = newcomers_budget(view);
  const Span allowed = std::min(newcomers, least.late ? prompts : std::min(prompts, decodes));
  const bool as_both = !least.late && newcomers >= std::min(prompts, decodes);
  const ClockChoice within =
      as_both ? within_both : clock_for(rule_, shape, 0, allowed, latency, {current_, clock_delay_});
  // The dwell keeps the clock up for steps that follow; if delays are known, TimePrice does.
  Wish wish{within.clock, within.reason, -1, clock_delay_ <= Span()};
  if (hurried > wish.clock) wish = {hurried, "requests wait", -1, clock_delay_ <= Span()};
  if (least.clock > wish.clock) wish = {least.clock, "least energy at the price of what is late", -1, false};
  if (waiting > 0 || shape.prefill_tokens > 0 || (view.spec->slo.itl && before_ > Span())) return wish;
  wish.kv_tokens_max = shape.decode_kv_tokens + shape.decode_kv_tokens / 32;
  if (within.within && wish.clock < rule_.clocks.back()) {
    wish.kv_tokens_max = std::min(wish.kv_tokens_max, latency->kv_tokens_within(shape, wish.clock, allowed));
  }
  held_ = wish;
  held_requests_ = shape.decode_requests;
  return wish;
}

EcoFreq::Wish EcoFreq::wish(const InstanceView& view, Instant now) {
  const MegaHertz top = rule_.clocks.back();
  if (view.telemetry == Telemetry::Lost) {
    unpriced(now);
    return {top, "telemetry lost: maximum", -1};
  }

  const LatencyModel* latency = view.spec->beliefs.latency;
  const StepShape& shape = view.step.shape;
  const bool decodes_alone = shape.prefill_tokens == 0 && view.step.waiting_requests == 0;
  const bool same_batch = decodes_alone && shape.decode_requests == held_requests_ && before_ <= Span();
  if (same_batch && shape.decode_kv_tokens <= held_.kv_tokens_max) return held_;
  held_requests_ = 0;
  if (newcomers_ && shape.prefill_tokens > 0) newcomers_->note(shape, fastest(view));
  const Span prompts = prompt_budget(view);
  const Span decodes = decode_budget(view);
  const Span allowed = std::min(prompts, decodes);
  const bool begun = !shape.idle();  // no prediction is possible for requests that only wait
  const ClockChoice choice = clock_for(rule_, shape, price_ && begun ? 0 : view.step.waiting_requests, allowed, latency,
                                       {current_, clock_delay_});
  if (!choice.believed) {
    ++disbelieved_;
    return {choice.clock, choice.reason, -1};
  }
  if (price_ && begun) return priced(view, now, prompts, decodes, choice);
  std::int64_t kv_tokens_max = kAnyKv;
  // Raised for what the command's delay costs this step, too: the next one may need less.
  if (clock_delay_ > Span() && choice.clock > current_) return {choice.clock, choice.reason, -1};
  if (!choice.predicted) return {choice.clock, choice.reason, kv_tokens_max};
  // Over the budget, but as fast as the top clock: the choice holds as long as that is the case.
  const bool as_fast = !choice.within && choice.clock != top;
  const Span most = as_fast ? latency->step_time(shape, top) : std::min(allowed, kLongestBelievable);
  for (const MegaHertz clock : rule_.clocks) {
    // At the top clock, outgrowing the budget changes nothing. Clocks that are too slow stay so as the KV cache grows,
    // but their predictions could leave the plausible range.
    const bool enough = clock == choice.clock && (choice.within || as_fast);
    if (!enough || clock != top) {
      const Span limit = enough ? most : kLongestBelievable;
      kv_tokens_max = std::min(kv_tokens_max, latency->kv_tokens_within(shape, clock, limit));
    }
    if (enough) break;
  }
  return {choice.clock, choice.reason, kv_tokens_max};
}

EcoFreq::Wish EcoFreq::carrying(const InstanceView& view, Wish wish, Instant now) const {
  if (wish.clock == rule_.clocks.back()) return wish;
  const MegaHertz least = load_ ? load_->least() : prefill_load_->least(now);
  const std::int64_t kv_tokens = view.step.shape.decode_kv_tokens;
  if (least > wish.clock) wish = {least, "the lowest that carries the load", wish.kv_tokens_max};
  wish.kv_tokens_max = std::min(wish.kv_tokens_max, kv_tokens + kv_tokens / 32);
  return wish;
}

void EcoFreq::unpriced(Instant now) {
  if (!price_) return;
  price_->pause(now);
  held_requests_ = 0;
  waiting_since_ = Instant::never();
}

ClockDecision EcoFreq::choose(const InstanceView& view, Instant now) {
  const bool windowed = options_.window > Span() && view.telemetry != Telemetry::Lost;
  if (windowed && now < window_end_) return {current_, "within the window", Hold{kAnyKv, window_end_}};
  ClockDecision decision = decide(view, now);
  if (windowed) {
    window_end_ = now + options_.window;
    if (!has_no_work(view)) decision.hold = Hold{kAnyKv, window_end_};
  }
  return decision;
}

ClockDecision EcoFreq::overrun(const InstanceView& view, Instant now) {
  current_ = rule_.clocks.back();
  if (load_) load_->runs_at(current_);
  if (price_ && !has_no_work(view)) price_->runs_at(current_, now);
  lower_from_ = now + options_.dwell;
  return {current_, "step overran its prediction: maximum", {}};
}

void EcoFreq::runs(Instant now) {
  if (load_) load_->runs_at(current_);
  if (price_) price_->runs_at(current_, now);
}

ClockDecision EcoFreq::decide(const InstanceView& view, Instant now) {
  const bool known = view.telemetry != Telemetry::Lost;
  if (prefill_load_ && known) prefill_load_->note(view.step.shape, view.step.start, now);
  if (price_ && known && view.spec->decode_tokens == 0) follow_gaps(view);
  if (load_ && known) load_->note(view.step.shape, view.step.waiting_requests, gap_budget(view), now);
  if (has_no_work(view)) {
    unpriced(now);
    const LatencyModel* latency = view.spec->beliefs.latency;
    const bool ready = newcomers_ && !options_.park_idle && latency != nullptr;
    current_ = ready ? newcomers_->idle_clock(rule_, *latency, now) : idle_clock_;
    return {current_, "idle", Hold::forever()};
  }
  Wish wanted = wish(view, now);
  if (known && (load_ || prefill_load_)) wanted = carrying(view, wanted, now);
  Hold hold{wanted.kv_tokens_max, Instant::never()};
  // The batch changes with every step that has prompts: decide each time.
  if (view.step.shape.prefill_tokens > 0) hold.kv_tokens_max = -1;
  const bool first = current_ == MegaHertz{0};
  if (!first && wanted.clock < current_ && now < lower_from_) {
    hold.until = lower_from_;
    note_step(view);
    runs(now);
    return {current_, "dwell after a raise", hold};
  }
  if (!first && wanted.clock > current_ && wanted.dwells) lower_from_ = now + options_.dwell;
  current_ = wanted.clock;
  runs(now);
  note_step(view);
  return {current_, wanted.reason, hold};
}

}  // namespace wattle::policy
