#pragma once
#include <cstdint>

#include "model/decision.h"
#include "model/delivered.h"
#include "policy/policy.h"

namespace wattle::policy {

/// Chooses the clock of an instance. Asked when an iteration starts (unless its last decision still holds) and when the
/// instance goes idle (view.step.shape.idle()). There is one object per instance, which observes that instance's steps,
/// or one for all that also fills a slot of the fleet and so observes the fleet's events.
class FrequencyPolicy : public virtual Policy {
 public:
  virtual ClockDecision choose(const InstanceView& view, Instant now) = 0;
  /// The step in progress takes much longer than predicted. By default the clock stays as it is.
  virtual ClockDecision overrun(const InstanceView& view, Instant now) {
    (void)now;
    return {view.clock_commanded, "overrun: as it is", {}};
  }
  /// A request has had its first token from its decode instance. Its prompt was computed `age` after its arrival, the
  /// first token came `wait` later. Called for both of its instances.
  virtual void handed_over(Span age, Span wait) {
    (void)age;
    (void)wait;
  }
  /// What the instance has delivered since the last call (at first: since its state is inferred from its streams).
  /// Called before choose(), and only while there are no step reports.
  virtual void delivered(const Delivered& news) { (void)news; }
  /// `requests` of a class got their last token from this instance; `late` of them missed an objective.
  virtual void finished(ClassId request_class, std::int64_t requests, std::int64_t late) {
    (void)request_class, (void)requests, (void)late;
  }
  /// From now on the instance has to meet these objectives instead of those in its spec. By default the spec's, which
  /// are the strictest, stay in force.
  virtual void held_to(const InstanceView& view, const Slo& slo) {
    (void)view;
    (void)slo;
  }
  /// Number of decisions made without the predictor because it was absent or its answer was impossible.
  [[nodiscard]] virtual std::int64_t disbelieved() const { return 0; }
};

/// The instance is known to be idle. Silence while work is in flight (Telemetry::Lost) does not count as idle.
[[nodiscard]] inline bool has_no_work(const InstanceView& view) {
  return view.telemetry != Telemetry::Lost && view.step.shape.idle() && view.step.waiting_requests == 0;
}

}  // namespace wattle::policy
