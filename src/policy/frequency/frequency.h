#pragma once
#include <cstdint>

#include "model/decision.h"
#include "model/delivered.h"
#include "policy/policy.h"

namespace wattle::policy {

/// Chooses one instance's clock. Asked as each iteration starts (unless its last decision still holds) and when the
/// instance goes idle (view.step.shape.idle()). One object per instance, or one for all that also fills a slot of the
/// fleet and so hears of what happens there; one per instance hears of its steps.
class FrequencyPolicy : public virtual Policy {
 public:
  virtual ClockDecision choose(const InstanceView& view, Instant now) = 0;
  /// The step in progress takes much longer than predicted. The default lets it.
  virtual ClockDecision overrun(const InstanceView& view, Instant now) {
    (void)now;
    return {view.clock_commanded, "overrun: as it is", {}};
  }
  /// A request has had its first token from the decode instance, `wait` after its prompt was computed, which took until
  /// `age` past its arrival. Said of both its instances.
  virtual void handed_over(Span age, Span wait) {
    (void)age;
    (void)wait;
  }
  /// What has come from here since this was last said, or since the instance began to be known by its streams: said
  /// only while no step reports are heard, before choose().
  virtual void delivered(const Delivered& news) { (void)news; }
  /// Requests of a class have ended here, their last tokens from this instance; `late` of them missed an objective.
  virtual void finished(ClassId request_class, std::int64_t requests, std::int64_t late) {
    (void)request_class, (void)requests, (void)late;
  }
  /// From now on these are the objectives of what the instance serves, instead of its spec's. The default keeps to the
  /// spec's, which no others are stricter than.
  virtual void held_to(const InstanceView& view, const Slo& slo) {
    (void)view;
    (void)slo;
  }
  /// Decisions made without the predictor because it was absent or answered nonsense.
  [[nodiscard]] virtual std::int64_t disbelieved() const { return 0; }
};

/// Known to have nothing to do. Silence while work is in flight (Telemetry::Lost) is not that.
[[nodiscard]] inline bool has_no_work(const InstanceView& view) {
  return view.telemetry != Telemetry::Lost && view.step.shape.idle() && view.step.waiting_requests == 0;
}

}  // namespace wattle::policy
