#pragma once
// For policies that choose among all of a GPU's clocks, or a list of them, where requests are admitted.
#include <memory>
#include <span>

#include "model/clock_setting.h"
#include "systems/registry.h"

namespace wattle::systems {

/// Do they ascend, within what the GPU can lock, and is there one within Beliefs::clocks? Errors name the keys of
/// [frequency.decode].
[[nodiscard]] Result<void> check_clock_range(std::span<const ClockSetting> listed, ClockSetting lowest,
                                             const Making& making);

/// The frequency policy that is the admission policy itself.
template <typename Shared, typename Options>
Result<std::shared_ptr<Shared>> share_admission(const Options&, const Making& making) {
  if (auto both = std::dynamic_pointer_cast<Shared>(making.admission)) return both;
  return making.refuse("policy",
                       "this clock follows the admission policy of its name; set admission.policy to it, or "
                       "choose another");
}

}  // namespace wattle::systems
