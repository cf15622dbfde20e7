#pragma once
#include "model/beliefs.h"
#include "model/decision.h"
#include "model/instance.h"

namespace wattle::policy {

/// Chooses one instance's clock. Asked as each iteration starts (unless its last decision still holds) and when the
/// instance goes idle (view.step.shape.idle()). One object per instance.
class FrequencyPolicy {
 public:
  virtual ~FrequencyPolicy() = default;
  virtual ClockDecision choose(const InstanceView& view, const Beliefs& beliefs, Instant now) = 0;
};

/// Known to have nothing to do. Silence while work is in flight (Telemetry::Lost) is not that.
[[nodiscard]] inline bool has_no_work(const InstanceView& view) {
  return view.telemetry != Telemetry::Lost && view.step.shape.idle() && view.step.waiting_requests == 0;
}

}  // namespace wattle::policy
