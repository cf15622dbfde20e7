#pragma once
// The per-iteration half of the control loop: one object per instance asks its frequency policy and commands the clock.
#include <memory>
#include <optional>

#include "control/ports.h"
#include "journal/record.h"
#include "model/plan.h"
#include "policy/frequency/frequency.h"

namespace wattle::control {

class Throttle {
 public:
  /// `overrun_slack`: how far a step may exceed its prediction before the clock is raised; max(): no watchdog.
  Throttle(InstanceView view, std::shared_ptr<policy::FrequencyPolicy> policy, Mode mode, ClockPort& port,
           journal::Sink& sink, Span overrun_slack = Span::max());

  /// An iteration starts. Returns how long the decision holds; fast-forward must not skip beyond it.
  Hold step(const StepReport& report, Instant now);
  /// The instance has no work (known, not guessed). Returns how long the decision holds while that remains so.
  Instant idle(Instant now);
  /// Stores the report that step() would be asked about, without deciding.
  void see(const StepReport& report) { view_.step = report; }
  /// Reports have stopped although work is in flight.
  void lost(Instant now);

  /// See FrequencyPolicy::delivered.
  void delivered(const Delivered& news) {
    if (policy_ && mode_ != Mode::Off) policy_->delivered(news);
  }
  /// See FrequencyPolicy::handed_over.
  void handed_over(Span age, Span wait) {
    if (policy_ && mode_ != Mode::Off) policy_->handed_over(age, wait);
  }

  /// See FrequencyPolicy::finished.
  void finished(ClassId request_class, std::int64_t requests, std::int64_t late) {
    if (policy_ && mode_ != Mode::Off) policy_->finished(request_class, requests, late);
  }

  /// From now on each clock is clamped to the range, the policy's and the present one; none: unbounded.
  void bound(const std::optional<ClockRange>& range, Instant now);

  /// The instance serves something else from now on, with another spec (which outlives this) and policy; its clock
  /// stays until that policy decides.
  void become(const InstanceSpec& spec, std::shared_ptr<policy::FrequencyPolicy> policy);

  /// See FrequencyPolicy::held_to; also after become(). The next step asks the policy again.
  void held_to(const Slo& slo);

  /// An emergency: the highest clock until `until`, whatever the policy decides, if its decisions are acted upon.
  void boost(Instant until, Instant now);

  /// How long a step of this shape may take before it has overrun: its prediction plus the slack. `in_effect`: the
  /// clock at which it begins; during a change the slower of that and the commanded one counts. Span::max(): no
  /// watchdog, or no plausible prediction.
  [[nodiscard]] Span allowed(const StepShape& shape, MegaHertz in_effect) const;
  /// The same without the slack, with or without watchdog; zero: no plausible prediction.
  [[nodiscard]] Span predicted(const StepShape& shape, MegaHertz in_effect) const;
  /// The step in progress has taken longer than allowed. Counts it; returns true if that raised the clock, in which
  /// case the last hold is void.
  bool overrun(Instant now);
  [[nodiscard]] std::int64_t overruns() const { return overruns_; }

  /// Whether the last step() asked the policy. Such a step is worth measuring: predictions matter where decisions are
  /// made.
  [[nodiscard]] bool asked() const { return asked_now_; }
  /// The objectives set by held_to(); none: the spec's.
  [[nodiscard]] const std::optional<Slo>& objectives() const { return held_to_; }
  /// An input of the last decision has changed: the next step asks the policy again.
  void forget_hold() { hold_ = Hold{}; }
  [[nodiscard]] std::int64_t disbelieved() const { return policy_ ? policy_->disbelieved() : 0; }

  [[nodiscard]] const InstanceView& view() const { return view_; }

 private:
  void learn(const StepYield& yield);
  Hold decide(Instant now);
  void act(ClockDecision decision, Instant now);
  [[nodiscard]] ClockDecision within(ClockDecision decision) const;

  InstanceView view_;
  std::shared_ptr<policy::FrequencyPolicy> policy_;
  bool hears_steps_;
  Mode mode_;
  ClockPort* port_;      ///< outlives this
  journal::Sink* sink_;  ///< outlives this
  Span overrun_slack_;
  std::optional<ClockRange> range_;
  std::optional<Slo> held_to_;  ///< none: the spec's
  Instant boosted_;             ///< until when the highest clock holds
  std::int64_t overruns_ = 0;
  bool asked_now_ = false;
  MegaHertz last_decided_{-1};
  Hold hold_;  ///< of the last decision
  /// Tokens per decoding request and step; older steps have decreasing weight.
  struct Yields {
    double requests = 0.0;
    double tokens = 0.0;
  } yields_;
  /// State of the report for which the decision was made: it says whether the next report's batch is the same.
  struct Asked {
    StepShape shape;
    std::int32_t waiting_requests = 0;
    std::int64_t waiting_prompt_tokens = 0;
  } asked_;
};

}  // namespace wattle::control
