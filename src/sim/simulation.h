#pragma once
// Driver 1: a deterministic simulation. A run is a function of its setup: equal setups give equal journals.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "carbon/ledger.h"
#include "control/fleet_loop.h"
#include "control/instance_loop.h"
#include "control/plan_executor.h"
#include "engine/replica.h"
#include "journal/record.h"
#include "journal/statistics.h"
#include "model/objectives.h"
#include "model/telemetry_source.h"
#include "policy/frequency/frequency.h"
#include "predict/length_hint.h"
#include "predict/length_learner.h"
#include "predict/online/online_latency.h"
#include "workload/source.h"

namespace wattle::sim {

struct InstanceSetup {
  InstanceId id;
  std::shared_ptr<const InstanceSpec> spec;
  const engine::StepModel* model = nullptr;  ///< truth; outlives the run
  MegaHertz initial_clock;
  std::int32_t data_groups = 1;  ///< of its engine (EngineOptions::of_groups)
  control::Slot<policy::FrequencyPolicy> frequency;
  Span overrun_slack = Span::max();           ///< see control::LoopInstance
  predict::OnlineLatency* learner = nullptr;  ///< spec->beliefs.latency where it learns; instances may share one
};

/// A kind of instance that may be started while the run goes on.
struct ShapeSetup {
  std::int32_t gpus = 1;
  double max_load_per_s = 0.0;
  /// Makes one with this id. Its GPUs draw their idle power from the start on, before it can serve as well.
  std::function<InstanceSetup(InstanceId)> make;
  PoolId pool{};                ///< where one goes whose pool no plan states
  std::vector<NodeId> nodes{};  ///< it can stand there alone; empty: anywhere
  Role role = Role::Colocated;
  std::optional<PairShape> pair{};  ///< of two others, whose `make` is asked
};

/// Instances that come and go: colocated ones, and P/D pairs; an empty list of shapes is a fleet that stays as it is.
struct ScalingSetup {
  control::Slot<policy::ScalingPolicy> policy;
  Span period = Span::s(10);
  double surge = 0.0;  ///< see control::PlanExecutorOptions
  std::vector<ShapeSetup> shapes;
  std::vector<std::size_t> shape_of;  ///< of the instances the run begins with; of both of a pair, the pair's
  std::vector<PoolWeight>
      weights;  ///< in force from the beginning, as of a plan; none: requests go by the service's pools
  Span load_time = Span::s(20);      ///< from the command to an engine that answers
  Span warm_time;                    ///< from then to one that takes requests; not after a re-shard
  std::vector<Node> nodes;           ///< empty: GPUs are not accounted for; else all the instances have room there
  std::vector<Milliwatts> idle_gpu;  ///< by node; NodeOptions::idle_gpu
  plan::ReshardProblem reshard;      ///< weights, links, memory; see control::PlanExecutorOptions
  std::int32_t at_once = std::numeric_limits<std::int32_t>::max();
  bool beside_draining = false;  ///< see control::PlanExecutorOptions
};

/// An instance, or a node with all of its instances, loses everything in it. An instance comes back empty after `down`
/// (max() never) of the fault that lasts longest; under an enforced scaling policy it is gone for good, and replaced. A
/// node takes instances again after `down`.
struct Fault {
  Instant at;
  InstanceId instance;
  Span down = Span::max();
  std::optional<NodeId> node = {};  ///< then `instance` says nothing
};

struct SimulationSetup {
  std::vector<InstanceSetup> instances;
  control::DispatchPolicies policies;
  ScalingSetup scaling;
  engine::EngineOptions engine;
  engine::LinkOptions link;
  engine::ClockDelays clock_delays;
  Slo slo;  ///< the fleet's
  Service service;
  control::EmergencyOptions emergency;
  std::optional<FairnessBasis> fairness;
  std::uint64_t seed = 1;
  std::int32_t max_tokens = 4096;  ///< what clients state as their cap
  /// The one way from a request's true length to what the control plane believes; null: no hint.
  std::unique_ptr<predict::LengthHint> length_hint;
  /// Says what else requests are hinted to be, and learns from the finished; no text is known here. Null: nobody.
  std::shared_ptr<predict::LengthLearner> length_learner;
  std::vector<std::vector<Span>> round_trips;  ///< from a request's origin to a site; empty: none takes time
  std::vector<carbon::SiteRates> sites = std::vector<carbon::SiteRates>(1);  ///< by the instances' facts.site
  workload::RequestSource* source = nullptr;
  Span refit_delay = Span::s(1);  ///< from the sample or answer that made a refit due to the new model
  double sample_noise = 0.0;      ///< standard deviation, as a share, of what predictors learn of a step's time
  /// What is known of engines. StepStarts: nothing is known late, the reports of an engine with our scheduler plugin.
  /// StepEnds: as engines come, with a heartbeat when one has been idle for a second. Streams: what goes through the
  /// gateway. Gauges: what engines answer when asked.
  TelemetrySource telemetry = TelemetrySource::StepStarts;
  Span telemetry_period = Span::ms(250);  ///< of Gauges, and of how often Streams are looked at beside their events
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
