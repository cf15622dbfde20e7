#pragma once
// The contents of a scenario file: hardware, workload, objectives. Recipes say which policies run.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"
#include "model/hardware.h"
#include "model/instance.h"
#include "model/request.h"
#include "model/telemetry_source.h"
#include "workload/options.h"

namespace wattle::config {

/// `count` equal instances. A count of 0 describes a shape that a scaling policy may start.
struct PoolOptions {
  Role role = Role::Colocated;
  std::int32_t count = 1;
  std::string gpu;   ///< name of a file in specs/gpus, without .toml
  std::string site;  ///< name of a [[site]]; empty: the first
  std::string pool;  ///< name of a [[pool]]; empty: the first
  std::int32_t tensor_parallel = 1;
  std::int32_t pipeline_parallel = 1;
  std::int32_t expert_parallel = 1;
  std::int32_t data_parallel = 1;
  double weight = 1.0;
  double activation_bytes_per_gpu = 0.0;  ///< instead of the engine's; 0 = the engine's
  double max_load_per_s = 0.0;            ///< what one instance carries (experiment/saturation.h); 0 = measured
  std::optional<Span> max_load_e2e;       ///< p99 of E2E latency at which it is measured; absent = slo.e2e

  [[nodiscard]] Parallelism parallelism() const {
    Parallelism made(tensor_parallel);
    made.pipeline = pipeline_parallel;
    made.expert = expert_parallel;
    made.data = data_parallel;
    return made;
  }
  [[nodiscard]] std::int32_t gpus() const { return parallelism().gpus(); }  ///< of one instance
};

/// Borders between request sizes in tokens, ascending; a size below the first border is the smallest class. Empty:
/// requests are not classified by this size.
struct ClassOptions {
  std::vector<std::int32_t> prompt_below;
  std::vector<std::int32_t> output_below;
  bool one = false;      ///< set by recipes: all requests are one class, whatever the scenario says
  bool by_tier = false;  ///< set by recipes: the requests of each tier are classes of their own
  [[nodiscard]] bool stated() const { return one || !prompt_below.empty() || !output_below.empty(); }
};

/// Objectives of one class.
struct ClassSloOptions {
  std::string name;  ///< "SS" to "LL"
  Slo slo;
};

struct TierOptions {
  std::string name;
  double factor = 1.0;
  Slo slo;
};

struct TenantOptions {
  std::string name;
  double share = 1.0;
  std::string tier;    ///< name of a [[tier]]; empty: the first
  std::string origin;  ///< name of a [[site]]; empty: the first
  std::int32_t priority = 0;
  std::string residency;  ///< names of [[site]]s, separated by commas; empty: any
};

/// A pool of instances that serves some classes; [[fleet]] says which instances belong to it.
struct ServingPoolOptions {
  std::string name;
  std::string classes;  ///< names, separated by blanks; empty: all
};

/// Where an intensity comes from: a file, or a public source that a live process queries periodically. If neither is
/// stated, it is a constant.
struct IntensityOptions {
  std::string file;    ///< a CSV, or a stored answer of `source`; looked up like a trace
  std::string column;  ///< of the CSV; empty: Electricity Maps' direct emissions
  std::string source;  ///< a name that feeds::source_named knows, or a form of CSV
  std::string zone;    ///< by the name that the source uses
  std::string kind;    ///< "average" or "marginal"; empty: the source's usual kind
  std::string scope;  ///< "lifecycle" or "direct"; empty: lifecycle if a source is queried, else what the file contains
  std::string key_file;  ///< empty: the key is in the source's environment variable
  std::string base_url;  ///< instead of the provider's
  [[nodiscard]] bool stated() const { return !file.empty() || !source.empty(); }
  [[nodiscard]] bool asked_online() const { return file.empty() && !source.empty(); }
};

/// A location of instances. Files are looked up like traces (in WATTLE_DATA, then beside the scenario).
struct SiteOptions {
  std::string name;
  std::string start;               ///< UTC time in the files at which the run begins; empty: that of their first row
  IntensityOptions books;          ///< used by the ledger
  IntensityOptions decisions;      ///< used by planners; not stated: as the ledger
  GramsPerKwh intensity{400.0};    ///< if no series is stated
  Span refresh = Span::s(300);     ///< between two queries of a source
  Span max_age = Span::s(3600);    ///< how long a source's last value stays valid after its own step
  Span timeout = Span::s(10);      ///< of one query
  std::string electricity_file;    ///< empty: the constant
  std::string electricity_column;  ///< empty: CAISO's column
  UsdPerMwh electricity;
  UsdPerHour gpu{2.0};
  std::string zone;  ///< name in the file of round-trip times; empty: network round trips take no time
};

/// How long it takes to start an instance while others serve.
struct SpawnOptions {
  Span load = Span::s(20);  ///< from the command until the engine answers
  Span warm = Span::s(5);   ///< from then until it accepts requests
  bool beside_draining = false;
};

/// Equal machines; instances of a fleet that scales are placed on them.
struct NodeOptions {
  std::string name;
  std::string gpu;   ///< only instances on this GPU are placed there; empty: any
  std::string site;  ///< only those of this [[site]]; empty: any
  std::int32_t count = 1;
  std::int32_t gpus = 8;
  Watts idle_gpu;  ///< power of a GPU without an instance while others of the node have one; 0: not accounted for
};

/// A failure of a node with everything on it, or of an instance; or a limit of their clocks.
struct FaultOptions {
  Span at;
  std::optional<std::int32_t> node;        ///< its number, in the order of [[node]]
  std::optional<std::int32_t> instance;    ///< its id
  std::optional<Span> down;                ///< time until it returns; absent: it never does
  std::optional<double> clock_share = {};  ///< limit, of the highest clock; absent: it fails
};

/// The cost of a re-shard. Weights, memory and the engine's share of the memory follow from model, GPU and engine.
struct ReshardOptions {
  double link_bytes_per_s = 300e9;  ///< between two GPUs of a node
  double host_bytes_per_s = 25e9;   ///< for weights that are on no GPU of the node
  Span sync = Span::s(1);           ///< start of the engine once the weights are in place
  double kv_in_use_bytes = 0.0;     ///< what an old instance needs on each GPU to continue serving
  double kv_at_start_bytes = 0.0;   ///< what a new one needs on each GPU to begin
};

/// Errors of step measurements, and how long learning from them takes. They belong to experiments, not to policies.
struct MeasurementOptions {
  double profile_scale = 1.0;     ///< factor on the durations of the offline profile
  double sample_noise = 0.0;      ///< relative noise of measured durations, offline and while serving
  Span refit_delay = Span::s(1);  ///< how long a refit takes
  TelemetrySource telemetry = TelemetrySource::StepStarts;  ///< how the control plane learns about its engines
  Span telemetry_period = Span::ms(250);  ///< of Gauges, and of the evaluation of Streams in addition to their events
};

/// Parameters of the fairness metrics (model/service.h).
struct FairnessOptions {
  Span ttft;  ///< 0: that of one prompt alone on the first instance that computes prompts, at its highest clock
  Span tbt;   ///< 0: likewise for one decoding request
  double window = 1.4;
  double limit = 5.0;
};

struct Scenario {
  std::string name;
  std::string description;
  std::string file;  ///< path of the file
  std::uint64_t seed = 1;
  std::string llm;  ///< name of a file in specs/llms, without .toml
  std::vector<PoolOptions> pools;
  std::vector<NodeOptions> nodes;    ///< empty: GPUs are not accounted for
  std::vector<FaultOptions> faults;  ///< simulated runs only
  Span begins;                       ///< a run's Instant 0 in the time of faults and sites' series; no key sets it
  ReshardOptions reshard;
  std::vector<SiteOptions> sites;  ///< empty: one site, with carbon_intensity and gpu_price
  ClassOptions classes;
  std::vector<ClassSloOptions> class_slos;
  std::vector<TierOptions> tiers;
  std::vector<TenantOptions> tenants;
  std::vector<ServingPoolOptions> serving_pools;
  engine::EngineOptions engine;
  engine::LinkOptions link;
  engine::ClockDelays clock_delays;
  workload::WorkloadOptions workload;
  std::string workload_fallback;  ///< workload.synthetic to use if the trace file is missing; empty = an error
  double peak_load = 0.0;    ///< workload.peak_rate_per_s as a share of the largest pool's max_load_per_s; 0 = unset
  double trough_load = 0.0;  ///< likewise workload.trough_rate_per_s
  std::string
      load_lengths;  ///< workload.synthetic with whose lengths max_load_per_s is measured; empty = the workload's
  SpawnOptions spawn;
  MeasurementOptions measurement;
  Slo slo;
  FairnessOptions fairness;
  GramsPerKwh carbon_intensity{400.0};
  UsdPerHour gpu_price{2.0};
  Span sample_period = Span::s(1);
};

/// The engine options of one pool's instances.
[[nodiscard]] inline engine::EngineOptions engine_of(const Scenario& scenario, const PoolOptions& pool) {
  engine::EngineOptions engine = scenario.engine.of_groups(pool.data_parallel);
  if (pool.activation_bytes_per_gpu > 0.0) engine.activation_bytes_per_gpu = pool.activation_bytes_per_gpu;
  return engine;
}

}  // namespace wattle::config
