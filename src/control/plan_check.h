#pragma once
// Checks each plan before anything of it is carried out.
#include <cstdint>
#include <span>
#include <vector>

#include "model/plan.h"

namespace wattle::control {

/// GPUs of one instance by shape, and in total (0: no bound).
struct FleetBounds {
  std::vector<std::int32_t> gpus_of_shape;
  std::int32_t gpus = 0;
  std::vector<NodeView> nodes = {};     ///< empty: not accounted for
  std::vector<bool> half_of_pair = {};  ///< by shape: serves only as half of a pair; empty: none
};

/// Null: the plan is sound. Otherwise what is wrong with it, as static text. A sound plan has at least one instance,
/// stays within bounds and mandate (so does each level of a nested plan), sends requests only to pools with instances,
/// and touches no instance twice. It never takes the last serving instance of the fleet, or of a pool with requests,
/// out of service (checked step by step), and each of its steps can end.
[[nodiscard]] const char* flaw_of(const Plan& plan, std::span<const FleetMember> members, const FleetBounds& bounds);

}  // namespace wattle::control
