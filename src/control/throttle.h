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
  /// `overrun_slack`: how far a step may outlast its prediction before the clock is raised; max(): no watchdog.
  Throttle(InstanceView view, std::shared_ptr<policy::FrequencyPolicy> policy, Mode mode, ClockPort& port,
           journal::Sink& sink, Span overrun_slack = Span::max());

  /// An iteration starts. Returns how long the decision stands; a driver that wants to skip steps must not skip past
  /// it.
  Hold step(const StepReport& report, Instant now);
  /// The instance has no work (known, not guessed). Returns until when the decision stands as long as that stays so.
  Instant idle(Instant now);
  /// What step() would be asked about, seen without being asked: nothing is decided.
  void see(const StepReport& report) { view_.step = report; }
  /// Reports stopped although work is in flight.
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

  /// Every clock stays within the range from now on, those of a policy and the one that is set; none: unbounded.
  void bound(const std::optional<ClockRange>& range, Instant now);

  /// The instance serves something else from now on, by another spec (outlives this) and policy; its clock stays until
  /// that decides.
  void become(const InstanceSpec& spec, std::shared_ptr<policy::FrequencyPolicy> policy);

  /// See FrequencyPolicy::held_to; of what it becomes, too. The next step asks again.
  void held_to(const Slo& slo);

  /// An emergency: the highest clock until then where a policy's decisions are acted upon, whatever it says.
  void boost(Instant until, Instant now);

  /// How long a step of this shape may take before it has overrun: its prediction plus the slack. `in_effect`: the
  /// clock it begins at; when a change is under way the slower of that and the commanded one counts. Span::max(): no
  /// watchdog, or no prediction worth believing.
  [[nodiscard]] Span allowed(const StepShape& shape, MegaHertz in_effect) const;
  /// That without the slack, watchdog or not; zero: no prediction worth believing.
  [[nodiscard]] Span predicted(const StepShape& shape, MegaHertz in_effect) const;
  /// The step in progress has taken longer than allowed. Counted; true when that raised the clock, and then the last
  /// hold is void.
  bool overrun(Instant now);
  [[nodiscard]] std::int64_t overruns() const { return overruns_; }

  /// Did the last step() ask the policy? Such a step is worth measuring: a predictor matters where it is asked.
  [[nodiscard]] bool asked() const { return asked_now_; }
  /// What held_to() said; none: what the spec does.
  [[nodiscard]] const std::optional<Slo>& objectives() const { return held_to_; }
  /// What the last decision was based on has changed: the next step asks again.
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
  std::optional<Slo> held_to_;  ///< none: what the spec says
  Instant boosted_;             ///< until then
  std::int64_t overruns_ = 0;
  bool asked_now_ = false;
  MegaHertz last_decided_{-1};
  Hold hold_;  ///< of the last decision
  /// Tokens per decoding request and step; older steps count less and less.
  struct Yields {
    double requests = 0.0;
    double tokens = 0.0;
  } yields_;
  /// Of the report it was made for: what makes the next one's batch the same.
  struct Asked {
    StepShape shape;
    std::int32_t waiting_requests = 0;
    std::int64_t waiting_prompt_tokens = 0;
  } asked_;
};

}  // namespace wattle::control
