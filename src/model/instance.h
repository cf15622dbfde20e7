#pragma once
// What the control plane knows of an instance and of the fleet: plain values, each observed signal with its age.
#include <cstdint>
#include <span>

#include "model/step.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

enum class Role : std::uint8_t { Colocated, Prefill, Decode };

/// Idle (known to have no work) and Lost (no report although work is in flight) are different states.
enum class Telemetry : std::uint8_t { Fresh, Idle, Lost };

/// One engine instance (a TP group) as the control plane sees it.
struct InstanceView {
  InstanceId id;
  Role role = Role::Colocated;
  std::int32_t tensor_parallel = 1;
  bool accepting = true;  ///< false: starting, draining or dead
  double weight = 1.0;    ///< for weighted round-robin

  // The dispatcher's own books: exact, never stale.
  std::int32_t assigned_requests = 0;  ///< dispatched here and not yet left
  std::int64_t assigned_prompt_tokens = 0;

  // From the newest step report; its age is now - step.start.
  StepReport step;
  Telemetry telemetry = Telemetry::Idle;

  // Clocks.
  MegaHertz clock_commanded;  ///< newest command; a lock is a ceiling, the reached clock may be lower
  std::int64_t kv_capacity_tokens = 0;
};

struct FleetSnapshot {
  Instant now;
  std::span<const InstanceView> instances;
};

}  // namespace wattle
