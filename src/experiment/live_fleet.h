#pragma once
// Specifications and beliefs about a live process's engines (agent, gateway), from names given as flags.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/beliefs.h"
#include "config/load.h"
#include "engine/options.h"
#include "engine/step_model.h"
#include "experiment/request_profile.h"
#include "model/beliefs.h"
#include "model/hardware.h"
#include "model/instance.h"
#include "model/service.h"
#include "plan/load_table.h"
#include "systems/recipe.h"

namespace wattle::experiment {

/// Names and options, as given by flags.
struct LiveFleetOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string gpu = "a100-80g";
  std::string llm = "llama-3.1-8b";
  engine::EngineOptions engine;
  std::string scenario;  ///< on which predictions of whole requests are fitted; empty: none. With a scenario, its keys
                         ///< may be overridden, too
};
/// One recipe for engines of one kind, with any tensor parallelism.
class LiveFleet {
 public:
  /// Without a recipe: hardware only. Errors: a missing or invalid file; an override of an unknown key.
  [[nodiscard]] static Result<LiveFleet> load(const LiveFleetOptions& options);

  [[nodiscard]] const systems::Recipe& recipe() const { return recipe_; }
  [[nodiscard]] const GpuSpec& gpu() const { return gpu_; }
  /// Such an instance's specification from the options alone, without beliefs.
  [[nodiscard]] InstanceSpec facts(Role role, std::int32_t tensor_parallel) const;
  /// The same with objectives and the beliefs that the recipe needs; kv_capacity_tokens stays unset. Beliefs live as
  /// long as this object. Errors: an instance that the recipe's policies refuse; a model that does not fit; missing
  /// data for the recipe's predictor; if request latencies are needed: no scenario, or none of its [[fleet]] entries is
  /// such an engine.
  [[nodiscard]] Result<InstanceSpec> describe(Role role, std::int32_t tensor_parallel, const Slo& slo);
  /// The error of describe() if a scenario is missing, before anything is measured for it.
  [[nodiscard]] Result<void> check_scenario(std::int32_t tensor_parallel) const;
  /// The latency model if it learns online, else null. Call after describe().
  [[nodiscard]] predict::OnlineLatency* learner(std::int32_t tensor_parallel) const;
  /// Load profile of the scenario's engines if the recipe needs one and describe() was called, else null.
  [[nodiscard]] const std::shared_ptr<const plan::LoadTable>& loads() const { return loads_; }
  /// KV tokens such an instance can hold. Errors: a model that does not fit.
  [[nodiscard]] Result<std::int64_t> kv_capacity_tokens(std::int32_t tensor_parallel);
  /// Service times of a single request on such an instance. Errors: as above.
  [[nodiscard]] Result<ServiceTime> service_time(std::int32_t tensor_parallel);
  /// Number of predictions outside the measured range of a belief file.
  [[nodiscard]] std::int64_t extrapolations() const;

 private:
  /// Fitted on a simulated load like the scenario's.
  Result<const RequestLatency*> request_latency(std::int32_t tensor_parallel);
  /// The scenario's [[fleet]] entry on which request latencies of such an instance are fitted.
  [[nodiscard]] Result<std::size_t> fitted_on(std::int32_t tensor_parallel) const;
  Result<InstanceSpec> believe(Role role, std::int32_t tensor_parallel, const Slo& slo);
  Result<const engine::StepModel*> model(std::int32_t tensor_parallel);
  Result<const LoadProfile*> load_profile_of(std::int32_t tensor_parallel);

  engine::EngineOptions engine_;
  systems::Recipe recipe_;
  GpuSpec gpu_;
  LlmSpec llm_;
  std::map<std::int32_t, std::unique_ptr<engine::StepModel>> models_;  ///< by tensor parallelism
  std::map<std::int32_t, calibrate::LatencyBelief> latency_;
  std::map<std::int32_t, std::shared_ptr<const PowerModel>> power_;
  std::optional<config::LoadedScenario> scenario_;
  std::string gpu_name_;  ///< name in the scenario
  std::map<std::int32_t, RequestLatency> requests_;
  std::shared_ptr<const plan::LoadTable> loads_;
  std::map<std::int32_t, std::unique_ptr<plan::TableProfile>> load_profiles_;  ///< by tensor parallelism
};

}  // namespace wattle::experiment
