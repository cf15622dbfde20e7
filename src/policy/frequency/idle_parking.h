#pragma once
#include "policy/frequency/frequency.h"

namespace wattle::policy {

/// Full speed for any work, a low locked clock when there is none: an idle GPU locked low draws about half of one
/// locked at its top clock. Lost telemetry counts as work.
class IdleParking final : public FrequencyPolicy {
 public:
  IdleParking(MegaHertz busy, MegaHertz parking) : busy_(busy), parking_(parking) {}
  ClockDecision choose(const InstanceView& view, const Beliefs& beliefs, Instant now) override;

 private:
  MegaHertz busy_;
  MegaHertz parking_;
};

}  // namespace wattle::policy
