#pragma once
#include <optional>

#include "policy/frequency/frequency.h"

namespace wattle::policy {

/// One clock, whatever the load; optionally a parking clock while the instance is known to be idle.
class StaticClock final : public FrequencyPolicy {
 public:
  explicit StaticClock(MegaHertz clock, std::optional<MegaHertz> parking = std::nullopt)
      : clock_(clock), parking_(parking) {}
  ClockDecision choose(const InstanceView& view, const Beliefs& beliefs, Instant now) override;

 private:
  MegaHertz clock_;
  std::optional<MegaHertz> parking_;
};

}  // namespace wattle::policy
