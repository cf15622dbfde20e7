#include "policy/frequency/primal_dual_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace wattle::policy {

namespace {
constexpr std::size_t kMostKnown = 16;
constexpr std::int64_t kMostSteps = 50;
constexpr Span kIteration = Span::ms(20);
constexpr double kSlopeGhz = 0.1;
constexpr double kLeastLimit_s = 1e-6;  ///< of no latency at all
constexpr std::int64_t kLeastLeft = 8;  ///< a late prompt is to get its first token within this part of its limit

double ghz(MegaHertz clock) { return 1e-3 * clock.value(); }
MegaHertz highest(const InstanceSpec& spec) { return spec.clocks.empty() ? spec.gpu.clock_max : spec.clocks.back(); }
}  // namespace

std::vector<MegaHertz> clocks_from(MegaHertz floor, const InstanceSpec& spec) {
  std::vector<MegaHertz> all;
  for (const MegaHertz clock : spec.clocks) {
    if (clock >= floor && spec.beliefs.clocks.covers(clock)) all.push_back(clock);
  }
  if (all.empty()) return {highest(spec)};
  std::vector<MegaHertz> some;
  const std::size_t count = std::min(all.size(), kMostKnown);
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[count == 1 ? 0 : i * (all.size() - 1) / (count - 1)]);
  return some;
}

PrimalDualClock::Curves::Curves(std::vector<MegaHertz> clocks)
    : clocks_(std::move(clocks)), power_w_(clocks_.size()), rate_per_s_(clocks_.size()) {
  lowest_ghz = ghz(clocks_.front());
  highest_ghz = ghz(clocks_.back());
  step_ghz = kSlopeGhz;
}

bool PrimalDualClock::Curves::fill(const Beliefs& beliefs, const StepShape& shape, double tokens) {
  for (std::size_t i = 0; i < clocks_.size(); ++i) {
    const Span time = beliefs.latency->step_time(shape, clocks_[i]);
    if (time <= Span() || time > kLongestBelievable) return false;
    rate_per_s_[i] = tokens / time.seconds();
    power_w_[i] = 1e-3 * static_cast<double>(beliefs.power->step_power(shape, clocks_[i]).value());
  }
  return true;
}

double PrimalDualClock::Curves::between(const std::vector<double>& values, double at) const {
  const MegaHertz below(static_cast<std::int32_t>(at * 1e3));
  const auto above = std::ranges::upper_bound(clocks_, below) - clocks_.begin();
  if (above == 0) return values.front();
  if (static_cast<std::size_t>(above) == values.size()) return values.back();
  const auto i = static_cast<std::size_t>(above);
  const double share = (at - ghz(clocks_[i - 1])) / (ghz(clocks_[i]) - ghz(clocks_[i - 1]));
  return values[i - 1] + share * (values[i] - values[i - 1]);
}

PrimalDualClock::PrimalDualClock(const PrimalDualOptions& options, const InstanceSpec& spec)
    : options_(options),
      limits_(LatencyLimits::of(options, spec, spec.slo)),
      curves_(clocks_from(options.floor, spec)),
      controller_(options.price, options.gain, curves_.highest_ghz) {}

void PrimalDualClock::held_to(const InstanceView& view, const Slo& slo) {
  limits_ = LatencyLimits::of(options_, *view.spec, slo);
}

std::array<Flow, 2> PrimalDualClock::flows_of(const InstanceView& view, Instant now) const {
  const StepReport& step = view.step;
  const double least_decode = 1.0 / std::max(std::min(limits_.gap, limits_.mean_gap).seconds(), kLeastLimit_s);
  const Flow decodes{static_cast<double>(step.shape.decode_requests), 1.0, least_decode};
  Flow prompts{static_cast<double>(step.shape.prefill_requests + step.waiting_requests), 1.0, 0.0};
  const bool is_short = step.shape.prefill_tokens <= step.shape.prefill_requests * options_.short_prompt;
  const Span limit = is_short ? limits_.ttft_short : limits_.ttft_long;
  if (limit == Span::max()) return {decodes, prompts};
  const bool known = step.oldest_scheduled_arrival != Instant::never();
  Span left = std::max(limit - (known ? now - step.oldest_scheduled_arrival : Span()), limit / kLeastLeft);
  if (view.spec->role == Role::Prefill) left = std::min(left, limit / kStepsOfAFirstToken);
  double steps = step.waiting_requests > 0 ? 2.0 : 1.0;
  if (step.shape.prefill_tokens > 0) {
    steps += static_cast<double>(step.unfinished_prompt_tokens) / static_cast<double>(step.shape.prefill_tokens);
  }
  prompts.least_per_s = steps / std::max(left.seconds(), kLeastLimit_s);
  return {decodes, prompts};
}

bool PrimalDualClock::iterate(const InstanceView& view, Instant now, bool begins) {
  const Beliefs& beliefs = view.spec->beliefs;
  const StepShape& shape = view.step.shape;
  const double tokens = std::max(shape.decode_requests * view.tokens_per_step + shape.prefill_requests, 1.0);
  if (beliefs.latency == nullptr || beliefs.power == nullptr || !curves_.fill(beliefs, shape, tokens)) return false;
  const auto passed = (now - iterated_).ns() / kIteration.ns();
  const auto count = begins ? kMostSteps : std::clamp<std::int64_t>(passed, 1, kMostSteps);
  const auto flows = flows_of(view, now);
  for (std::int64_t i = 0; i < count; ++i) controller_.step(curves_, flows);
  iterated_ = now;
  return true;
}

MegaHertz PrimalDualClock::lockable(const InstanceView& view) const {
  const auto& clocks = view.spec->clocks;
  const MegaHertz wanted(static_cast<std::int32_t>(std::lround(controller_.clock_ghz() * 1e3)));
  const auto found = std::ranges::lower_bound(clocks, wanted);
  return found == clocks.end() ? highest(*view.spec) : *found;
}

ClockDecision PrimalDualClock::choose(const InstanceView& view, Instant now) {
  const bool starts = clock_ == MegaHertz{0};
  const auto go = [&](MegaHertz clock, const char* reason) {
    clock_ = clock;
    reason_ = reason;
    next_ = now + options_.period;
  };
  if (view.telemetry == Telemetry::Lost) {
    controller_.set_clock(curves_.highest_ghz);
    go(highest(*view.spec), "telemetry lost: highest clock");
    return {clock_, reason_, {}};
  }
  if (has_no_work(view)) {
    if (starts) go(highest(*view.spec), "start: highest clock");
    if (starts) worked_ = now;
    if (idle_ || now < worked_ + options_.period) {
      return {clock_, reason_,
              idle_ ? Hold::forever() : Hold{std::numeric_limits<std::int64_t>::max(), worked_ + options_.period}};
    }
    idle_ = true;
    controller_.set_clock(curves_.lowest_ghz);
    go(lockable(view), "idle: lowest clock");
    return {clock_, reason_, Hold::forever()};
  }
  const bool begins = std::exchange(idle_, false);
  worked_ = now;
  if (view.step.shape.idle()) {  // what waits has not begun
    if (starts) go(highest(*view.spec), "start: highest clock");
    return {clock_, reason_, {}};
  }
  if (!iterate(view, now, begins || starts)) {
    ++disbelieved_;
    go(highest(*view.spec), "no believable prediction: highest clock");
  } else if (starts || begins || now >= next_) {
    go(lockable(view), "balances speed and power");
  }
  return {clock_, reason_, {}};
}

}  // namespace wattle::policy
