#pragma once
// What a scenario file says: hardware, workload, objectives. Which policies run is the recipe's business.
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

/// `count` equal instances; none: a shape that a scaling policy may start.
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
  double max_load_per_s = 0.0;            ///< what one instance carries (apps/saturation.h); 0 = measured
  std::optional<Span> max_load_e2e;       ///< p99 of E2E latency it is measured against; absent = slo.e2e

  [[nodiscard]] Parallelism parallelism() const {
    Parallelism made(tensor_parallel);
    made.pipeline = pipeline_parallel;
    made.expert = expert_parallel;
    made.data = data_parallel;
    return made;
  }
  [[nodiscard]] std::int32_t gpus() const { return parallelism().gpus(); }  ///< of one instance
};

/// Borders between sizes of requests, tokens, ascending; a size below the first is the smallest. Empty: it does not
/// matter.
struct ClassOptions {
  std::vector<std::int32_t> prompt_below;
  std::vector<std::int32_t> output_below;
  bool one = false;      ///< a recipe's: requests are all alike to it, whatever the scenario says
  bool by_tier = false;  ///< a recipe's: requests of each tier are classes of their own
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
  std::string residency;  ///< names of [[site]]s with commas between them; empty: any
};

/// Instances that serve some classes; which ones it has, [[fleet]] says.
struct ServingPoolOptions {
  std::string name;
  std::string classes;  ///< names with blanks between them; empty: all
};

/// Where an intensity comes from: a file, or a public source that a live process asks again and again. Neither: a
/// constant.
struct IntensityOptions {
  std::string file;      ///< a CSV, or an answer of `source` that was kept; looked up like a trace
  std::string column;    ///< of the CSV; empty: Electricity Maps' direct emissions
  std::string source;    ///< by its name in feeds::source_named, or a form of CSV
  std::string zone;      ///< by the source's own name
  std::string kind;      ///< "average", "marginal"; empty: what the source is known for
  std::string scope;     ///< "lifecycle", "direct"; empty: lifecycle where a source is asked, else what the file holds
  std::string key_file;  ///< empty: the source's environment variable holds its key
  std::string base_url;  ///< instead of the provider's
  [[nodiscard]] bool stated() const { return !file.empty() || !source.empty(); }
  [[nodiscard]] bool asked_online() const { return file.empty() && !source.empty(); }
};

/// Where instances stand. A file's series is looked up like a trace (WATTLE_DATA, then beside the scenario).
struct SiteOptions {
  std::string name;
  std::string start;               ///< the time, UTC, in the files at which the run begins; empty: their first row's
  IntensityOptions books;          ///< what the ledger goes by
  IntensityOptions decisions;      ///< what plans go by; not stated: as the ledger
  GramsPerKwh intensity{400.0};    ///< where nothing says it
  Span refresh = Span::s(300);     ///< between two questions to a source
  Span max_age = Span::s(3600);    ///< for so long a source's last value holds after its own step has ended
  Span timeout = Span::s(10);      ///< of one question
  std::string electricity_file;    ///< empty: the constant
  std::string electricity_column;  ///< empty: as CAISO writes it
  UsdPerMwh electricity;
  UsdPerHour gpu{2.0};
  std::string zone;  ///< in the file of round trips; empty: no trip takes time
};

/// What it takes to start an instance while others serve.
struct SpawnOptions {
  Span load = Span::s(20);  ///< from the command to an engine that answers
  Span warm = Span::s(5);   ///< from then to one that takes requests
  bool beside_draining = false;
};

/// Equal machines; instances of a fleet that scales are placed on them.
struct NodeOptions {
  std::string name;
  std::string gpu;   ///< only instances on this GPU are placed there; empty: any
  std::string site;  ///< only those of this [[site]]; empty: any
  std::int32_t count = 1;
  std::int32_t gpus = 8;
  Watts idle_gpu;  ///< draw of one without an instance, while others of the node have some; 0: not accounted for
};

/// Something dies: a node with all that is on it, or an instance.
struct FaultOptions {
  Span at;
  std::optional<std::int32_t> node;      ///< by its number, in the order of [[node]]
  std::optional<std::int32_t> instance;  ///< by its id
  std::optional<Span> down;              ///< until it is there again; absent: never
};

/// What a re-shard takes. Weights, memory and the engine's own share of it come from model, GPU and engine.
struct ReshardOptions {
  double link_bytes_per_s = 300e9;  ///< between two GPUs of a node
  double host_bytes_per_s = 25e9;   ///< for weights that no GPU of the node holds
  Span sync = Span::s(1);           ///< the engine's start once the weights are in place
  double kv_in_use_bytes = 0.0;     ///< that an old instance needs on each GPU to serve on
  double kv_at_start_bytes = 0.0;   ///< that a new one needs on each GPU to begin
};

/// How measuring steps goes wrong, and how long learning from them takes: of experiments, not of policies.
struct MeasurementOptions {
  double profile_scale = 1.0;     ///< the offline profile's durations are multiplied by this
  double sample_noise = 0.0;      ///< measured durations scatter by this share, offline and served
  Span refit_delay = Span::s(1);  ///< how long a refit takes
  TelemetrySource telemetry = TelemetrySource::StepStarts;  ///< what the control plane knows of its engines by
  Span telemetry_period = Span::ms(250);  ///< of Gauges, and of how often Streams are looked at beside their events
};

/// What fairness is judged by (model/service.h).
struct FairnessOptions {
  Span ttft;  ///< 0: of one prompt alone on the first instance that takes prompts, at its highest clock
  Span tbt;   ///< 0: likewise of one that decodes
  double window = 1.4;
  double limit = 5.0;
};

struct Scenario {
  std::string name;
  std::string description;
  std::string file;  ///< where it was read from
  std::uint64_t seed = 1;
  std::string llm;  ///< name of a file in specs/llms, without .toml
  std::vector<PoolOptions> pools;
  std::vector<NodeOptions> nodes;    ///< none: GPUs are not accounted for
  std::vector<FaultOptions> faults;  ///< simulated runs only
  ReshardOptions reshard;
  std::vector<SiteOptions> sites;  ///< none: one, of carbon_intensity and gpu_price
  ClassOptions classes;
  std::vector<ClassSloOptions> class_slos;
  std::vector<TierOptions> tiers;
  std::vector<TenantOptions> tenants;
  std::vector<ServingPoolOptions> serving_pools;
  engine::EngineOptions engine;
  engine::LinkOptions link;
  engine::ClockDelays clock_delays;
  workload::WorkloadOptions workload;
  std::string workload_fallback;  ///< workload.synthetic to use when the trace file is absent; empty = an error
  double peak_load = 0.0;    ///< workload.peak_rate_per_s as a share of the largest pool's max_load_per_s; 0 = unset
  double trough_load = 0.0;  ///< likewise workload.trough_rate_per_s
  std::string
      load_lengths;  ///< workload.synthetic whose lengths max_load_per_s is measured with; empty = the workload's
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
