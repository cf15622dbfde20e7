#pragma once
// What a scenario file says: hardware, workload, objectives. Which policies run is the recipe's business.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/options.h"
#include "model/hardware.h"
#include "model/instance.h"
#include "model/request.h"
#include "workload/options.h"

namespace wattle::config {

/// `count` equal instances.
struct PoolOptions {
  Role role = Role::Colocated;
  std::int32_t count = 1;
  std::string gpu;  ///< name of a file in specs/gpus, without .toml
  std::int32_t tensor_parallel = 1;
  double weight = 1.0;
};

struct Scenario {
  std::string name;
  std::string description;
  std::string file;  ///< where it was read from
  std::uint64_t seed = 1;
  std::string llm;  ///< name of a file in specs/llms, without .toml
  std::vector<PoolOptions> pools;
  engine::EngineOptions engine;
  engine::LinkOptions link;
  engine::ClockDelays clock_delays;
  workload::WorkloadOptions workload;
  std::string workload_fallback;  ///< workload.synthetic to use when the trace file is absent; empty = an error
  Slo slo;
  GramsPerKwh carbon_intensity{400.0};
  UsdPerHour gpu_price{2.0};
  Span sample_period = Span::s(1);
};

}  // namespace wattle::config
