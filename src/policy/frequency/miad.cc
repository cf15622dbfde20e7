#include "policy/frequency/miad.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

void Miad::keep(const InstanceSpec& spec, const Slo& slo) {
  limited_ = &spec;
  limits_ = LatencyLimits::of(options_, spec, slo);
  handed_over_ = std::max(limits_.ttft_short, limits_.ttft_long);
}

void Miad::held_to(const InstanceView& view, const Slo& slo) { keep(*view.spec, slo); }

void Miad::handed_over(Span age, Span wait) {
  // One that was late before is in the prefill instance's own steps.
  if (limited_ != nullptr && age <= handed_over_) first_tokens_.add(1, age + wait, handed_over_);
}

void Miad::delivered(const Delivered& news) {
  if (limited_ == nullptr) return;
  if (news.prompts > 0) {
    const bool is_short = news.prompt_tokens <= news.prompts * options_.short_prompt;
    const Span limit = is_short ? limits_.ttft_short : limits_.ttft_long;
    first_tokens_.add(news.prompts, news.waits / news.prompts, limit);
    if (limited_->role == Role::Prefill)
      prompt_steps_.add(news.prompts, news.computing / news.prompts, limit / kStepsOfAFirstToken);
  }
  if (news.tokens > 0) gaps_.add(news.tokens, news.gaps / news.tokens, limits_.gap);
}

void Miad::hear(const StepReport& step) {
  // Where reports are of steps that have ended, the first step after idle time has the number under which it was idle.
  const bool begins = heard_ && step.sequence == last_.sequence && last_.shape.idle() && !step.shape.idle();
  const bool other = !heard_ || begins || step.sequence != last_.sequence;
  const bool fresh = heard_ && step.sequence > last_.sequence && !last_.shape.idle();
  if (fresh) {
    // Steps that were not reported because of a hold had the same batch; each counts with their mean.
    const std::int64_t steps = step.sequence - last_.sequence;
    const Span gap = (step.start - last_.start) / steps;
    if (last_.shape.decode_requests > 0) gaps_.add(steps * last_.shape.decode_requests, gap, limits_.gap);
    if (last_.shape.prefill_requests > 0 && last_.oldest_scheduled_arrival != Instant::never()) {
      const bool is_short = last_.shape.prefill_tokens <= last_.shape.prefill_requests * options_.short_prompt;
      const Span ttft = last_.start + gap - std::max(last_.oldest_scheduled_arrival, since_);
      const Span limit = is_short ? limits_.ttft_short : limits_.ttft_long;
      first_tokens_.add(last_.shape.prefill_requests, ttft, limit);
      if (limited_->role == Role::Prefill)
        prompt_steps_.add(last_.shape.prefill_requests, gap, limit / kStepsOfAFirstToken);
    }
    // Nobody waited when that batch began and no prompt was cut: the next prompts arrived after the last of its steps
    // began.
    const std::int64_t prompt = last_.shape.prefill_tokens;
    const bool cut = last_.shape.prefill_context_tokens > prompt * prompt / 2;
    if (last_.waiting_requests == 0 && !cut) since_ = step.start - gap;
  } else if (other) {
    since_ = step.start;
  }
  if (other) last_ = step;
  heard_ = true;
}

std::int64_t Miad::own_latencies() const {
  return gaps_.all + (limited_->role == Role::Colocated ? first_tokens_.all : prompt_steps_.all);
}

bool Miad::congested() const {
  const auto beyond = [this](const Seen& seen) { return seen.congested(options_.quantile); };
  return gaps_.mean_above(limits_.mean_gap) || beyond(gaps_) || beyond(first_tokens_) || beyond(prompt_steps_);
}

MegaHertz Miad::raised(const InstanceView& view) const {
  const auto& clocks = view.spec->clocks;
  const double target =
      std::min(clock_.value() * options_.factor, static_cast<double>(view.spec->gpu.clock_max.value()));
  const MegaHertz wanted(static_cast<std::int32_t>(std::ceil(target)));
  const auto found = std::ranges::lower_bound(clocks, wanted);
  if (clocks.empty()) return wanted;
  return found == clocks.end() ? clocks.back() : *found;
}

MegaHertz Miad::lowered(const InstanceView& view) const {
  const auto& clocks = view.spec->clocks;
  const MegaHertz floor = std::max(options_.floor, view.spec->gpu.clock_min);
  const MegaHertz wanted(std::max(clock_.value() - options_.decrease.value(), floor.value()));
  if (clocks.empty()) return std::min(wanted, clock_);
  const auto above = std::ranges::upper_bound(clocks, wanted);
  const MegaHertz below = above == clocks.begin() ? clocks.front() : *(above - 1);
  // Never below the floor: if no clock is between it and the wanted one, the first above the floor.
  return below >= floor ? below : std::min(*std::ranges::lower_bound(clocks, std::min(floor, clocks.back())), clock_);
}

ClockDecision Miad::choose(const InstanceView& view, Instant now) {
  if (limited_ == nullptr) keep(*view.spec, view.spec->slo);
  const bool lost = view.telemetry == Telemetry::Lost;
  if (!lost) hear(view.step);
  const bool idle = has_no_work(view);
  if (std::exchange(idled_, idle && !lost) && !idle && !lost && now >= next_) {
    next_ = next_ + options_.period * (1 + (now - next_).ns() / options_.period.ns());  // none spans idle time
    gaps_ = first_tokens_ = prompt_steps_ = {};
  }
  const auto until_next = [this] { return Hold{std::numeric_limits<std::int64_t>::max(), next_}; };
  if (clock_ == MegaHertz{0}) {
    clock_ = view.spec->clocks.empty() ? view.spec->gpu.clock_max : view.spec->clocks.back();
    reason_ = "start: highest clock";
    next_ = now + options_.period;
    return {clock_, reason_, until_next()};
  }
  const bool none = own_latencies() == 0 && !congested();
  if (idle || !none) seen_ = now;
  const bool silent = now - seen_ > std::max({limits_.gap, limits_.ttft_short, limits_.ttft_long});
  if (!lost && (now < next_ || (none && !idle && !silent))) return {clock_, reason_, until_next()};
  if (lost || silent || congested()) {
    clock_ = raised(view);
    reason_ = lost ? "telemetry lost: clock raised"
                   : (silent ? "work, and no token for long: clock raised" : "congested: clock raised");
  } else {
    const MegaHertz lower = lowered(view);
    reason_ = idle ? "idle: clock lowered" : "no congestion: clock lowered";
    // At the floor only work changes anything.
    if (idle && lower >= clock_) return {clock_, reason_, Hold::forever()};
    clock_ = lower;
  }
  gaps_ = first_tokens_ = prompt_steps_ = {};
  next_ = now + options_.period;
  return {clock_, reason_, until_next()};
}

}  // namespace wattle::policy
