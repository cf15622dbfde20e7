#pragma once
#include "model/clock_setting.h"
#include "policy/frequency/frequency.h"

namespace wattle::policy {

struct IdleParkingOptions {
  ClockSetting clock = ClockSetting::highest();  ///< while there is work
  ClockSetting idle_clock = ClockSetting::lowest();
};

/// One clock while there is any work, a low locked clock while there is none: an idle GPU locked at a low clock draws
/// about half the power of one locked at its highest clock. Lost telemetry counts as work.
class IdleParking final : public FrequencyPolicy {
 public:
  IdleParking(const IdleParkingOptions& options, const InstanceSpec& spec)
      : busy_(options.clock.on(spec)), parking_(options.idle_clock.on(spec)) {}
  IdleParking(MegaHertz busy, MegaHertz parking) : busy_(busy), parking_(parking) {}
  ClockDecision choose(const InstanceView& view, Instant now) override;

 private:
  MegaHertz busy_;
  MegaHertz parking_;
};

}  // namespace wattle::policy
