#pragma once
// The per-iteration half of the control loop: one object per instance asks its frequency policy and commands the clock.
#include <memory>

#include "control/ports.h"
#include "journal/record.h"
#include "policy/frequency/frequency.h"

namespace wattle::control {

class Throttle {
 public:
  Throttle(InstanceView view, std::unique_ptr<policy::FrequencyPolicy> policy, Mode mode, Beliefs beliefs,
           ClockPort& port, journal::Sink& sink);

  /// An iteration starts. Returns how long the decision stands; a driver that wants to skip steps must not skip past
  /// it.
  Hold step(const StepReport& report, Instant now);
  /// The instance has no work (known, not guessed).
  void idle(Instant now);
  /// Reports stopped although work is in flight.
  void lost(Instant now);

  [[nodiscard]] const InstanceView& view() const { return view_; }

 private:
  Hold decide(Instant now);

  InstanceView view_;
  std::unique_ptr<policy::FrequencyPolicy> policy_;
  Mode mode_;
  Beliefs beliefs_;
  ClockPort& port_;
  journal::Sink& sink_;
  MegaHertz last_decided_{-1};
  Hold hold_;         ///< of the last decision
  StepReport asked_;  ///< the report it was made for
};

}  // namespace wattle::control
