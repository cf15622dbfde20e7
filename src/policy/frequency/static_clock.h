#pragma once
#include <optional>

#include "model/clock_setting.h"
#include "policy/frequency/frequency.h"

namespace wattle::policy {

struct StaticClockOptions {
  ClockSetting clock = ClockSetting::highest();
  bool park_idle = false;  ///< lock idle_clock while the instance is known to be idle
  ClockSetting idle_clock = ClockSetting::lowest();
};

/// One clock for any load; optionally a lower one while the instance is known to be idle.
class StaticClock final : public FrequencyPolicy {
 public:
  explicit StaticClock(MegaHertz clock, std::optional<MegaHertz> parking = std::nullopt)
      : clock_(clock), parking_(parking) {}
  StaticClock(const StaticClockOptions& options, const InstanceSpec& spec) : clock_(options.clock.on(spec)) {
    if (options.park_idle) parking_ = options.idle_clock.on(spec);
  }
  ClockDecision choose(const InstanceView& view, Instant now) override;

 private:
  MegaHertz clock_;
  std::optional<MegaHertz> parking_;
};

}  // namespace wattle::policy
