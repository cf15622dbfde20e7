#include "control/throttle.h"

#include <algorithm>
#include <iterator>

#include "policy/frequency/clock_choice.h"

namespace wattle::control {

Throttle::Throttle(InstanceView view, std::shared_ptr<policy::FrequencyPolicy> policy, Mode mode, ClockPort& port,
                   journal::Sink& sink, Span overrun_slack)
    : view_(view),
      policy_(std::move(policy)),
      hears_steps_(policy_ && mode != Mode::Off && policy_->observes().has(event::Step{view_})),
      mode_(mode),
      port_(&port),
      sink_(&sink),
      overrun_slack_(overrun_slack) {}

void Throttle::become(const InstanceSpec& spec, std::shared_ptr<policy::FrequencyPolicy> policy) {
  view_.spec = &spec;
  policy_ = std::move(policy);
  hears_steps_ = policy_ && mode_ != Mode::Off && policy_->observes().has(event::Step{view_});
  if (policy_ && held_to_) policy_->held_to(view_, *held_to_);
  forget_hold();
}

void Throttle::held_to(const Slo& slo) {
  if (held_to_ == slo) return;
  held_to_ = slo;
  if (policy_ && mode_ != Mode::Off) policy_->held_to(view_, slo);
  forget_hold();
}

void Throttle::learn(const StepYield& yield) {
  if (yield.requests <= 0) return;
  constexpr double kForgotten = 1.0 / 128;  // weight that past yields lose with each step
  yields_.requests += yield.requests - yields_.requests * kForgotten;
  yields_.tokens += static_cast<double>(yield.tokens) - yields_.tokens * kForgotten;
  view_.tokens_per_step = std::max(1.0, yields_.tokens / yields_.requests);
}

Hold Throttle::decide(Instant now) {
  if (!policy_ || mode_ == Mode::Off) return Hold::forever();
  ClockDecision decision = policy_->choose(view_, now);
  if (now < boosted_) decision.hold.until = std::min(decision.hold.until, boosted_);
  act(decision, now);
  return decision.hold;
}

/// Limits the clock to the plan's range: to the nearest lockable clock in it or, if there is none, to the lockable
/// clock nearest to it; to the bound itself if the instance's clocks are unknown.
ClockDecision Throttle::within(ClockDecision decision) const {
  if (!range_ || (decision.clock >= range_->least && decision.clock <= range_->most)) return decision;
  const bool low = decision.clock < range_->least;
  decision.clock = low ? range_->least : range_->most;
  decision.reason = low ? "the plan's lowest clock" : "the plan's highest clock";
  const auto& clocks = view_.spec->clocks;
  if (clocks.empty()) return decision;
  const auto above = std::ranges::upper_bound(clocks, range_->most);
  const auto below = std::ranges::lower_bound(clocks, range_->least);
  if (low) {
    decision.clock = below == clocks.end() ? clocks.back() : *below;
  } else {
    decision.clock = above == clocks.begin() ? clocks.front() : *std::prev(above);
  }
  return decision;
}

void Throttle::bound(const std::optional<ClockRange>& range, Instant now) {
  range_ = range;
  forget_hold();
  // Without a commanded clock a GPU runs at its maximum.
  const MegaHertz before = view_.clock_commanded == MegaHertz(0) ? view_.spec->gpu.clock_max : view_.clock_commanded;
  const ClockDecision kept = within({before, "", {}});
  if (kept.clock == before) return;
  view_.clock_commanded = last_decided_ = kept.clock;
  sink_->decision(
      {now, journal::DecisionKind::Clock, Mode::Enforce, RequestId{-1}, view_.id, kept.clock.value(), kept.reason});
  port_->command(view_.id, kept.clock, now);
}

void Throttle::boost(Instant until, Instant now) {
  if (!policy_ || mode_ != Mode::Enforce) return;
  boosted_ = until;
  forget_hold();
  act({view_.clock_commanded, "", {}}, now);
}

void Throttle::act(ClockDecision decision, Instant now) {
  decision = within(decision);
  if (now < boosted_) {
    const auto& clocks = view_.spec->clocks;
    decision.clock = clocks.empty() ? view_.spec->gpu.clock_max : clocks.back();
    decision.reason = "an emergency: the highest";
  }
  if (decision.clock != last_decided_) {
    last_decided_ = decision.clock;
    sink_->decision(
        {now, journal::DecisionKind::Clock, mode_, RequestId{-1}, view_.id, decision.clock.value(), decision.reason});
  }
  if (mode_ == Mode::Enforce && decision.clock != view_.clock_commanded) {
    view_.clock_commanded = decision.clock;
    port_->command(view_.id, decision.clock, now);
  }
}

Span Throttle::allowed(const StepShape& shape, MegaHertz in_effect) const {
  if (overrun_slack_ == Span::max()) return Span::max();
  const Span predicted = this->predicted(shape, in_effect);
  return predicted > Span() ? predicted + overrun_slack_ : Span::max();
}

Span Throttle::predicted(const StepShape& shape, MegaHertz in_effect) const {
  const LatencyModel* latency = view_.spec->beliefs.latency;
  const MegaHertz slowest = std::min(in_effect, view_.clock_commanded);
  if (latency == nullptr || shape.idle() || slowest.value() <= 0) return Span();
  const Span predicted = latency->step_time(shape, slowest);
  return predicted > Span() && predicted <= policy::kLongestBelievable ? predicted : Span();
}

bool Throttle::overrun(Instant now) {
  if (!policy_ || mode_ == Mode::Off) return false;
  ++overruns_;
  const MegaHertz before = last_decided_;
  const ClockDecision decision = policy_->overrun(view_, now);
  act(decision, now);
  if (decision.clock == before) return false;
  forget_hold();
  return true;
}

Hold Throttle::step(const StepReport& report, Instant now) {
  const bool same_batch = view_.telemetry == Telemetry::Fresh &&
                          report.shape.decode_requests == asked_.shape.decode_requests &&
                          report.shape.prefill_tokens == 0 && asked_.shape.prefill_tokens == 0 &&
                          report.waiting_requests == asked_.waiting_requests &&
                          report.waiting_prompt_tokens == asked_.waiting_prompt_tokens &&
                          // fewer tokens mean that requests were replaced, and a hold covers only growth
                          report.shape.decode_kv_tokens >= asked_.shape.decode_kv_tokens;
  view_.step = report;
  view_.telemetry = Telemetry::Fresh;
  learn(report.yield);
  asked_now_ = false;
  if (same_batch && hold_.covers(report.shape.decode_kv_tokens, now)) return hold_;
  asked_now_ = true;
  asked_ = {report.shape, report.waiting_requests, report.waiting_prompt_tokens};
  if (hears_steps_) policy_->observe(event::Step{view_}, now);
  hold_ = decide(now);
  if (hears_steps_) hold_ = Hold{};  // so that it gets every step, even from drivers that skip steps
  return hold_;
}

Instant Throttle::idle(Instant now) {
  boosted_ = now;  // ends the boost: no request waits
  asked_now_ = false;
  view_.step.shape = StepShape{};
  view_.step.waiting_requests = 0;
  view_.step.waiting_prompt_tokens = 0;
  view_.step.oldest_scheduled_arrival = Instant::never();
  view_.telemetry = Telemetry::Idle;
  return decide(now).until;
}

void Throttle::lost(Instant now) {
  view_.telemetry = Telemetry::Lost;
  decide(now);
}

}  // namespace wattle::control
