#pragma once
// What a live process (agent, gateway) knows of its engines by name, and what it believes of them.
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

/// Names, as flags give them.
struct LiveFleetOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string gpu = "a100-80g";
  std::string llm = "llama-3.1-8b";
  engine::EngineOptions engine;
  std::string scenario;  ///< what beliefs of whole requests are fitted on; empty: none. With one, its keys may be
                         ///< overridden, too
};
/// One recipe over engines of one kind, at any tensor parallelism.
class LiveFleet {
 public:
  /// Without a recipe: what the hardware is. Errors: a file that is missing or wrong, an override of nothing that is
  /// named.
  [[nodiscard]] static Result<LiveFleet> load(const LiveFleetOptions& options);

  [[nodiscard]] const systems::Recipe& recipe() const { return recipe_; }
  [[nodiscard]] const GpuSpec& gpu() const { return gpu_; }
  /// What such an instance is, by the options alone.
  [[nodiscard]] InstanceSpec facts(Role role, std::int32_t tensor_parallel) const;
  /// The same with its objectives and what the recipe needs believed of it; its kv_capacity_tokens is left open.
  /// Beliefs live as long as this. Errors: an instance that the recipe's policies refuse; a model that does not fit;
  /// what the recipe's predictor needs and lacks; where a latency of whole requests is believed: no scenario to fit it
  /// on, or none of its [[fleet]] entries such an engine.
  [[nodiscard]] Result<InstanceSpec> describe(Role role, std::int32_t tensor_parallel, const Slo& slo);
  /// What describe() refuses for want of a scenario, before anything is measured for it.
  [[nodiscard]] Result<void> check_scenario(std::int32_t tensor_parallel) const;
  /// Its latency belief where that learns, else null. Call after describe().
  [[nodiscard]] predict::OnlineLatency* learner(std::int32_t tensor_parallel) const;
  /// Load profile of the scenario's engines, where the recipe needs one; after describe(), else null.
  [[nodiscard]] const std::shared_ptr<const plan::LoadTable>& loads() const { return loads_; }
  /// KV tokens such an instance can hold. Errors: a model that does not fit.
  [[nodiscard]] Result<std::int64_t> kv_capacity_tokens(std::int32_t tensor_parallel);
  /// How long a request takes alone on such an instance. Errors: as above.
  [[nodiscard]] Result<ServiceTime> service_time(std::int32_t tensor_parallel);
  /// Predictions asked for outside what a belief file was measured on.
  [[nodiscard]] std::int64_t extrapolations() const;

 private:
  /// Fitted on the scenario's own kind of load, simulated.
  Result<const RequestLatency*> request_latency(std::int32_t tensor_parallel);
  /// The scenario's [[fleet]] entry that latencies of such an instance's requests are fitted on.
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
  std::string gpu_name_;  ///< as the scenario names it
  std::map<std::int32_t, RequestLatency> requests_;
  std::shared_ptr<const plan::LoadTable> loads_;
  std::map<std::int32_t, std::unique_ptr<plan::TableProfile>> load_profiles_;  ///< by tensor parallelism
};

}  // namespace wattle::experiment
