#pragma once
// Private to the plan executor: where an instance is on its way.
#include <algorithm>
#include <span>

#include "model/plan.h"

namespace wattle::control {

[[nodiscard]] inline bool is_coming(const FleetMember& m) {
  return m.phase == Phase::Spawning || m.phase == Phase::Warming;
}
[[nodiscard]] inline bool is_serving(const FleetMember& m) { return m.phase == Phase::Serving; }
[[nodiscard]] inline bool is_draining(const FleetMember& m) { return m.phase == Phase::Draining; }
[[nodiscard]] inline bool contains(std::span<const InstanceId> ids, InstanceId id) {
  return std::ranges::find(ids, id) != ids.end();
}

}  // namespace wattle::control
