#pragma once
// DynamoLLM's systems on a trace, pool by pool: the managers plan a fleet minute by minute as the requests arrive, each
// pool is then simulated on its own with the instances it was given. Pools share nothing but nodes, and requests go to
// the pool that the plan in force sends them to; what that leaves out is overflow between pools while they are
// overloaded.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/histogram.h"
#include "config/load.h"
#include "engine/step_model.h"
#include "managers/hierarchy.h"
#include "managers/instance_manager.h"
#include "reproduce/dynamollm.h"
#include "workload/options.h"

namespace wattle::reproduce::dynamollm {

/// What is compared. A fixed fleet has no planner: `instances` of TP degree `tp` in one pool, at `clock`.
struct System {
  std::string name;
  bool planned = true;
  managers::HierarchyOptions planner = {};
  bool manage_clocks = false;
  managers::InstanceManagerOptions clocks = {};
  int tp = 8, instances = 12;
  MegaHertz clock{1980};
};

/// Requests on the engines of a scenario, and what is known of both.
struct Service {
  config::LoadedScenario scenario;
  Classifier classes;
  std::shared_ptr<const plan::LoadTable> table;
  std::map<int, std::unique_ptr<engine::StepModel>> models;  ///< by TP degree
  std::vector<workload::TraceRow> rows;
  std::vector<ClassId> believed;   ///< of the rows, as predicted
  Span length;                     ///< of the evaluation
  std::vector<double> peak_per_s;  ///< by class, in its busiest minute: what fixed fleets are sized for
};

/// One minute of a run.
struct Minute {
  Joules energy;
  std::map<int, double> gpus;  ///< by TP degree
  std::vector<std::map<int, double>> pool_gpus;
  std::vector<double> pool_clock_mhz;  ///< mean of its instances; 0: none
  double clock_mhz = 0.0;              ///< mean over instances' GPUs
  double servers = 0.0;
};

struct FleetRun {
  Joules energy;               ///< instances, unused GPUs of their nodes, and starting nodes
  Joules unused_gpus, starts;  ///< of that
  std::vector<Joules> by_pool;
  std::vector<double> class_arrived, class_met;     ///< requests, by true class
  std::int64_t arrived = 0, finished = 0, met = 0;  ///< met: TTFT and TBT of the request's true class
  Histogram ttft_us, tbt_us;
  std::vector<double> power_w;   ///< of the cluster, every sample
  double gpu_power_p50_w = 0.0;  ///< of the average GPU that has an instance
  double gpu_hours = 0.0;        ///< of nodes' GPUs
  double used_gpu_hours = 0.0;   ///< of GPUs with an instance
  std::vector<Minute> minutes;
  [[nodiscard]] double attainment() const {
    return arrived == 0 ? 1.0 : static_cast<double>(met) / static_cast<double>(arrived);
  }
  [[nodiscard]] double power_w_at(double quantile) const;
  [[nodiscard]] double mean_gpus() const {
    return minutes.empty() ? 0.0 : used_gpu_hours * 60.0 / static_cast<double>(minutes.size());
  }
  [[nodiscard]] double mean_servers() const;
};

/// The hour's requests, each so many times. Errors: bad input of the scenario and its trace.
/// `accuracy`: of the output classes predicted (section IV-E: 81 %); the rest are neighbours.
[[nodiscard]] Result<Service> make_service(double copies, const Classifier& classes, double accuracy = 0.81);
/// Requests per second by minute and class.
[[nodiscard]] std::vector<std::vector<double>> rates_by_minute(const Service& service,
                                                               const std::vector<ClassId>& believed);
[[nodiscard]] Result<FleetRun> run_system(const Service& service, const System& system);

}  // namespace wattle::reproduce::dynamollm
