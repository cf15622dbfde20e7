#pragma once
// What the control plane knows of an instance and of the fleet: what each is (its spec, constant) and how it is (its
// view: plain values, each observed signal with its age).
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/hardware.h"
#include "model/request.h"
#include "model/step.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

enum class Role : std::uint8_t { Colocated, Prefill, Decode };

/// What an instance that comes and goes at run time is doing. All but Gone draw power.
enum class Phase : std::uint8_t {
  Spawning,  ///< started, does not answer yet
  Warming,   ///< answers, gets no requests yet
  Serving,
  Draining,  ///< gets no new requests, finishes those it has
  Gone,
};

/// Idle (known to have no work) and Lost (no report although work is in flight) are different states.
enum class Telemetry : std::uint8_t { Fresh, Idle, Lost };

/// Of InstanceSpec::weight, where it is said over a wire.
inline constexpr double kMostWeight = 1e6;

/// What an instance is, from the time it joins until it is gone. Instances alike may share one.
struct InstanceSpec {
  Role role = Role::Colocated;
  GpuSpec gpu;
  LlmSpec llm;
  std::int32_t tensor_parallel = 1;     ///< its GPUs, however they share the model (config: fleet.data_parallel ...)
  double weight = 1.0;                  ///< for weighted round-robin
  std::vector<MegaHertz> clocks;        ///< that can be locked, ascending; empty: none known
  MegaHertz sweet_clock{0};             ///< of least energy per token (model/clock_setting.h); 0: not known
  MegaHertz measured_from{0};           ///< the lowest at which GPUs of its kind were measured; 0: nobody knows
  std::int64_t kv_capacity_tokens = 0;  ///< 0: not known
  std::int32_t kv_block_tokens = 16;    ///< KV tokens are taken in blocks of so many
  Slo slo;          ///< objectives of all that it may serve; of the present: FrequencyPolicy::held_to
  Beliefs beliefs;  ///< outlive the spec
  PoolId pool;
  NodeId node;
  SiteId site;
  /// Of a pair's prefill instance: where its requests decode; kNoInstance: wherever routing says.
  InstanceId decode = kNoInstance;
};

/// What is said of an instance of which nothing is known.
inline const InstanceSpec kUnknownInstance{};

/// One instance as the control plane sees it.
struct InstanceView {
  InstanceId id;
  const InstanceSpec* spec = &kUnknownInstance;  ///< never null; outlives the instance
  bool accepting = true;                         ///< false: starting, draining or dead

  // The dispatcher's own books: exact, never stale.
  std::int32_t assigned_requests = 0;  ///< dispatched here and not yet left
  std::int64_t assigned_prompt_tokens = 0;
  std::int64_t unanswered_prompt_tokens = 0;  ///< of those whose first token has not come
  LoadShare load;                             ///< by Beliefs::load; 0 without one

  // From the newest step report; its age is now - step.start.
  StepReport step;
  Telemetry telemetry = Telemetry::Idle;
  double tokens_per_step = 1.0;  ///< of a decoding request, by the newest reports that say so (StepReport::yield)

  MegaHertz clock_commanded;  ///< newest command; a lock is a ceiling, the reached clock may be lower
};

/// The fleet as admission sees it. The request asked about is in neither count.
struct FleetSnapshot {
  Instant now;
  std::span<const InstanceView> instances;
  std::int64_t held_requests = 0;
  std::int64_t in_flight_requests = 0;  ///< dispatched, not yet left
};

}  // namespace wattle
