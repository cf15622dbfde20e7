#pragma once
// What the control plane knows about an instance and about the fleet: an instance's constant properties (its spec) and
// its present state (its view: plain values, each observed signal with its age).
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/hardware.h"
#include "model/pace.h"
#include "model/request.h"
#include "model/step.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

enum class Role : std::uint8_t { Colocated, Prefill, Decode };

/// The life of an instance that is started and stopped at run time. In all phases but Gone it draws power.
enum class Phase : std::uint8_t {
  Spawning,  ///< started, does not answer yet
  Warming,   ///< answers, gets no requests yet
  Serving,
  Draining,  ///< gets no new requests, finishes those it has
  Gone,
};

/// Idle (known to have no work) and Lost (no report although work is in flight) are different states.
enum class Telemetry : std::uint8_t { Fresh, Idle, Lost };

/// The largest InstanceSpec::weight accepted in messages.
inline constexpr double kMostWeight = 1e6;

/// An instance's properties, constant from the time it joins until it is gone. Equal instances may share one.
struct InstanceSpec {
  Role role = Role::Colocated;
  GpuSpec gpu;
  LlmSpec llm;
  std::int32_t tensor_parallel = 1;     ///< number of its GPUs, however they share the model (fleet.data_parallel ...)
  double weight = 1.0;                  ///< for weighted round-robin
  std::vector<MegaHertz> clocks;        ///< lockable ones, ascending; empty: none known
  MegaHertz sweet_clock{0};             ///< of least energy per token (model/clock_setting.h); 0: not known
  Span clock_delay;                     ///< from a clock command until steps run at it; 0: at once
  MegaHertz measured_from{0};           ///< the lowest at which GPUs of its kind were measured; 0: nobody knows
  std::int64_t kv_capacity_tokens = 0;  ///< 0: not known
  std::int32_t kv_block_tokens = 16;    ///< size of a KV block, tokens
  std::int32_t max_requests = 1024;     ///< that its engine runs at once (max_num_seqs); more of them wait
  std::int32_t max_step_tokens = 8192;  ///< that a step computes (max_num_batched_tokens), those of decodes first
  std::int32_t decode_tokens = 1;       ///< of max_step_tokens per decoding request, with drafts; 0: prompts run alone
  Slo slo;          ///< strictest objectives of all it may serve; at present: FrequencyPolicy::held_to
  Beliefs beliefs;  ///< the models outlive the spec
  PoolId pool;
  NodeId node;
  SiteId site;
  /// For the prefill instance of a pair: where its requests are decoded; kNoInstance: routing chooses.
  InstanceId decode = kNoInstance;
};

/// The spec of an instance about which nothing is known.
inline const InstanceSpec kUnknownInstance{};

/// The present state of an instance, as the control plane sees it.
struct InstanceView {
  InstanceId id;
  const InstanceSpec* spec = &kUnknownInstance;  ///< never null; outlives the instance
  bool accepting = true;                         ///< false: starting, draining or dead

  // Counted by the dispatcher: exact, never stale.
  std::int32_t assigned_requests = 0;  ///< dispatched here and not yet left
  std::int64_t assigned_prompt_tokens = 0;
  std::int64_t unanswered_prompt_tokens = 0;  ///< of those whose first token has not come
  LoadShare load;                             ///< by Beliefs::load; 0 without one

  // From the newest step report; its age is now - step.start.
  StepReport step;
  Telemetry telemetry = Telemetry::Idle;
  Pace pace;                     ///< measured; at an instance's own frequency policy: not known
  double tokens_per_step = 1.0;  ///< of a decoding request, by the newest reports that have it (StepReport::yield)

  MegaHertz clock_commanded;  ///< newest command; a lock is a ceiling, the reached clock may be lower
  /// The objective for mean gaps that it has to keep at present (Slo::tbt); max(): none besides its spec's.
  Span mean_gap = Span::max();
};

/// The fleet as admission sees it. The request asked about is in neither count.
struct FleetSnapshot {
  Instant now;
  std::span<const InstanceView> instances;
  std::int64_t held_requests = 0;
  std::int64_t in_flight_requests = 0;  ///< dispatched, not yet left; in the pools that the request may go to
  std::int64_t takers = 0;              ///< accepting instances that take first legs, of those pools
};

}  // namespace wattle
