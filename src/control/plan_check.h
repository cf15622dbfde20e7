#pragma once
// Is a plan sound? Every plan is checked before anything of it is carried out.
#include <cstdint>
#include <span>
#include <vector>

#include "model/plan.h"

namespace wattle::control {

/// GPUs of one instance by shape, and how many there are in all (0: no bound).
struct FleetBounds {
  std::vector<std::int32_t> gpus_of_shape;
  std::int32_t gpus = 0;
  std::vector<NodeView> nodes = {};     ///< empty: not accounted for
  std::vector<bool> half_of_pair = {};  ///< by shape: it serves beside another alone, and is no target; empty: none
};

/// Null: the plan is sound. Else what is wrong with it, as a static text. A sound plan wants at least one instance,
/// stays within bounds and mandate (so does each level of a nested one), sends requests only to pools that it staffs,
/// touches no instance twice, never takes the last serving one out of service, of the fleet or of a pool that it sends
/// requests to (each step in turn, those before it done), and each of its steps ends.
[[nodiscard]] const char* flaw_of(const Plan& plan, std::span<const FleetMember> members, const FleetBounds& bounds);

}  // namespace wattle::control
