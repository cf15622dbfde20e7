#include "control/throttle.h"

namespace wattle::control {

Throttle::Throttle(InstanceView view, std::unique_ptr<policy::FrequencyPolicy> policy, Mode mode, Beliefs beliefs,
                   ClockPort& port, journal::Sink& sink)
    : view_(view), policy_(std::move(policy)), mode_(mode), beliefs_(beliefs), port_(port), sink_(sink) {}

Hold Throttle::decide(Instant now) {
  if (!policy_ || mode_ == Mode::Off) return Hold::forever();
  const ClockDecision decision = policy_->choose(view_, beliefs_, now);
  if (decision.clock != last_decided_) {
    last_decided_ = decision.clock;
    sink_.decision(
        {now, journal::DecisionKind::Clock, mode_, RequestId{-1}, view_.id, decision.clock.value(), decision.reason});
  }
  if (mode_ == Mode::Enforce && decision.clock != view_.clock_commanded) {
    view_.clock_commanded = decision.clock;
    port_.command(view_.id, decision.clock, now);
  }
  return decision.hold;
}

Hold Throttle::step(const StepReport& report, Instant now) {
  const bool same_batch = view_.telemetry == Telemetry::Fresh &&
                          report.shape.decode_requests == asked_.shape.decode_requests &&
                          report.shape.prefill_tokens == 0 && asked_.shape.prefill_tokens == 0 &&
                          report.waiting_requests == asked_.waiting_requests &&
                          report.waiting_prompt_tokens == asked_.waiting_prompt_tokens &&
                          // fewer than asked about: members were exchanged, and a hold says nothing downwards
                          report.shape.decode_kv_tokens >= asked_.shape.decode_kv_tokens;
  view_.step = report;
  view_.telemetry = Telemetry::Fresh;
  if (same_batch && hold_.covers(report.shape.decode_kv_tokens, now)) return hold_;
  asked_ = report;
  hold_ = decide(now);
  return hold_;
}

void Throttle::idle(Instant now) {
  view_.step.shape = StepShape{};
  view_.step.waiting_requests = 0;
  view_.step.waiting_prompt_tokens = 0;
  view_.step.oldest_scheduled_arrival = Instant::never();
  view_.telemetry = Telemetry::Idle;
  decide(now);
}

void Throttle::lost(Instant now) {
  view_.telemetry = Telemetry::Lost;
  decide(now);
}

}  // namespace wattle::control
