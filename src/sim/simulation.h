#pragma once
// Driver 1: a deterministic simulation. A run is a function of its setup: equal setups give equal journals.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "carbon/intensity.h"
#include "control/dispatcher.h"
#include "control/throttle.h"
#include "engine/replica.h"
#include "journal/record.h"
#include "journal/statistics.h"
#include "predict/length_hint.h"
#include "workload/source.h"

namespace wattle::sim {

struct InstanceSetup {
  journal::InstanceFacts facts;
  double weight = 1.0;
  const engine::StepModel* model = nullptr;  ///< truth; outlives the run
  double kv_bytes_per_token = 0.0;
  MegaHertz initial_clock;
  control::Slot<policy::FrequencyPolicy> frequency;
  Beliefs beliefs;
};

/// An instance loses everything in it, and comes back empty after `down` (never() never).
struct Fault {
  Instant at;
  InstanceId instance;
  Span down = Span::max();
};

struct SimulationSetup {
  std::vector<InstanceSetup> instances;
  control::DispatchPolicies policies;
  engine::EngineOptions engine;
  engine::LinkOptions link;
  engine::ClockDelays clock_delays;
  Slo slo;
  std::uint64_t seed = 1;
  std::int32_t max_tokens = 4096;  ///< what clients state as their cap
  /// The one way from a request's true length to what the control plane believes; null: no hint.
  std::unique_ptr<predict::LengthHint> length_hint;
  const carbon::IntensitySeries* intensity = nullptr;
  UsdPerHour gpu_price;
  workload::RequestSource* source = nullptr;
  std::vector<Fault> faults;
  bool fast_forward = true;
  bool check_invariants = false;  ///< run every checker after every event (slow)
  Span sample_period;             ///< zero: no samples
  bool stretches = false;         ///< record busy stretches (Chrome trace)
  journal::Sink* sink = nullptr;  ///< may be null; sees everything the digest and statistics see
};

/// What a run leaves behind. `summary.sim.wall_s` and peak_rss_bytes are the caller's to fill.
struct SimulationResult {
  journal::RunSummary summary;
  journal::RunCurves curves;
  std::shared_ptr<const predict::LengthBelief> length;  ///< as it was at the end; may be null
};

[[nodiscard]] SimulationResult simulate(SimulationSetup setup);

}  // namespace wattle::sim
