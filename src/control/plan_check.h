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
};

/// Null: the plan is sound. Else what is wrong with it, as a static text. A sound plan wants at least one instance,
/// stays within bounds and mandate, touches no instance twice, never takes the last serving one out of service (each
/// step in turn, those before it done), and each of its steps ends.
[[nodiscard]] const char* flaw_of(const Plan& plan, std::span<const FleetMember> members, const FleetBounds& bounds);

}  // namespace wattle::control
