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
  predict::OnlineLatency* learner = nullptr;  ///< spec->beliefs.latency if it learns; instances may share one
};

/// A kind of instance that may be started while the run goes on.
struct ShapeSetup {
  std::int32_t gpus = 1;
  double max_load_per_s = 0.0;
  /// Makes one with this id. Its GPUs draw idle power from the start, including the time before it can serve.
  std::function<InstanceSetup(InstanceId)> make;
  PoolId pool{};                ///< its pool if no plan states one
  std::vector<NodeId> nodes{};  ///< the only nodes it may be placed on; empty: any
  Role role = Role::Colocated;
  std::optional<PairShape> pair{};  ///< a pair of two other shapes, whose `make` is used
};

/// Instances that are started and stopped during the run: colocated ones and P/D pairs. Without shapes the fleet is
/// fixed.
struct ScalingSetup {
  control::Slot<policy::ScalingPolicy> policy;
  Span period = Span::s(10);
  double surge = 0.0;  ///< see control::PlanExecutorOptions
  std::vector<ShapeSetup> shapes;
  std::vector<std::size_t> shape_of;  ///< by instance at the start; for both instances of a pair, the pair's shape
  std::vector<PoolWeight>
      weights;  ///< in force from the start, as if from a plan; none: requests follow the service's pools
  Span load_time = Span::s(20);      ///< from the command until the engine answers
  Span warm_time;                    ///< from then until it accepts requests; not after a re-shard
  std::vector<Node> nodes;           ///< empty: GPUs are not accounted for; otherwise all instances must fit
  std::vector<Milliwatts> idle_gpu;  ///< by node; NodeOptions::idle_gpu
  plan::ReshardProblem reshard;      ///< weights, links, memory; see control::PlanExecutorOptions
  std::int32_t at_once = std::numeric_limits<std::int32_t>::max();
  bool beside_draining = false;  ///< see control::PlanExecutorOptions
};

/// An instance, or a node with all of its instances, loses everything in it. An instance comes back empty after `down`
/// (max() never) of the fault that lasts longest; under an enforced scaling policy it is gone for good, and replaced. A
/// node takes instances again after `down`. With `clock_share` nothing is lost: the instance, or all that are on the
/// node at that time, run at no more than this share of their GPUs' highest clock for `down`, whatever is locked. While
/// several such faults last, the one that began last counts.
struct Fault {
  Instant at;
  InstanceId instance;
  Span down = Span::max();
  std::optional<NodeId> node = {};         ///< if stated, `instance` is ignored
  std::optional<double> clock_share = {};  ///< in (0, 1]
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
  control::AnswerOptions answers;
  std::optional<FairnessBasis> fairness;
  std::uint64_t seed = 1;
  std::int32_t max_tokens = 4096;  ///< the cap that clients state
  /// The only way by which a request's true length reaches the control plane: as a hint; null: no hint.
  std::unique_ptr<predict::LengthHint> length_hint;
  /// Predicts the length of the other requests and learns from finished ones; texts are not known here. Null: no
  /// prediction.
  std::shared_ptr<predict::LengthLearner> length_learner;
  std::vector<std::vector<Span>> round_trips;  ///< from a request's origin to a site; empty: all zero
  std::vector<carbon::SiteRates> sites = std::vector<carbon::SiteRates>(1);  ///< by the instances' facts.site
  workload::RequestSource* source = nullptr;
  Span refit_delay = Span::s(1);  ///< from the sample or answer that made a refit due to the new model
  double sample_noise = 0.0;      ///< relative standard deviation of the step times from which predictors learn
  /// What is known of engines. StepStarts: nothing is known late, the reports of an engine with our scheduler plugin.
  /// StepEnds: as engines come, with a heartbeat when one has been idle for a second. Streams: what goes through the
  /// gateway. Gauges: what engines answer when asked.
  TelemetrySource telemetry = TelemetrySource::StepStarts;
  Span telemetry_period = Span::ms(250);  ///< of Gauges, and of the evaluation of Streams in addition to their events
  std::vector<Fault> faults;
  bool fast_forward = true;
  bool check_invariants = false;  ///< run every checker after every event (slow)
  Span sample_period;             ///< zero: no samples
  bool stretches = false;         ///< record busy periods (Chrome trace)
  journal::Sink* sink = nullptr;  ///< may be null; sees everything the digest and statistics see
};

/// Result of a run. The caller fills in `summary.sim.wall_s` and peak_rss_bytes.
struct SimulationResult {
  journal::RunSummary summary;
  journal::RunCurves curves;
  std::shared_ptr<const predict::LengthBelief> length;  ///< its state at the end; may be null
};

[[nodiscard]] SimulationResult simulate(SimulationSetup setup);

}  // namespace wattle::sim
