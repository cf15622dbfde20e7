#pragma once
// What a live process (agent, gateway) is told of its engines by flags, and what it believes of them.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "command_line.h"

#include "base/error.h"
#include "calibrate/beliefs.h"
#include "config/load.h"
#include "config/recipe.h"
#include "engine/options.h"
#include "engine/step_model.h"
#include "experiment/retail_profile.h"
#include "model/beliefs.h"
#include "model/hardware.h"
#include "model/instance.h"

namespace wattle::apps {

struct FleetFlags {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string gpu = "a100-80g";
  std::string llm = "llama-3.1-8b";
  engine::EngineOptions engine;
  std::string scenario;  ///< what regression() learns from; empty: none. With one, its keys may be overridden, too
};
/// --recipe (default as it stands in `flags`), --set, --gpu, --llm and those of the engine. `flags` outlive the
/// parsing.
void add_fleet_flags(Command command, FleetFlags& flags);

/// One recipe over engines of one kind, at any tensor parallelism.
class LiveFleet {
 public:
  /// Errors: a file that is missing or wrong, an override that is no recipe key.
  [[nodiscard]] static Result<LiveFleet> load(const FleetFlags& flags);

  [[nodiscard]] const config::Recipe& recipe() const { return recipe_; }
  [[nodiscard]] const GpuSpec& gpu() const { return gpu_; }
  /// What an instance of this shape believes where the recipe needs that, else nothing. Lives as long as this.
  [[nodiscard]] Result<Beliefs> beliefs(Role role, std::int32_t tensor_parallel);
  /// The same as what learns; null where nothing does. Call after beliefs().
  [[nodiscard]] predict::OnlineLatency* learner(std::int32_t tensor_parallel) const;
  /// What ReTail believes of such an engine: fitted on the scenario's own kind of load, simulated. Errors: no scenario;
  /// none of its [[fleet]] entries is such an engine; as fit_retail.
  [[nodiscard]] Result<experiment::RetailFit> regression(std::int32_t tensor_parallel);
  /// KV tokens such an instance can hold. Errors: a model that does not fit.
  [[nodiscard]] Result<std::int64_t> kv_capacity_tokens(std::int32_t tensor_parallel);
  /// Predictions asked for outside what a belief file was measured on.
  [[nodiscard]] std::int64_t extrapolations() const;
  /// The clocks its predictors are made for.
  [[nodiscard]] std::vector<MegaHertz> clocks() const;

 private:
  Result<const engine::StepModel*> model(std::int32_t tensor_parallel);

  engine::EngineOptions engine_;
  config::Recipe recipe_;
  GpuSpec gpu_;
  LlmSpec llm_;
  std::map<std::int32_t, std::unique_ptr<engine::StepModel>> models_;  ///< by tensor parallelism
  std::map<std::int32_t, calibrate::LatencyBelief> latency_;
  std::optional<config::LoadedScenario> scenario_;
  std::string gpu_name_;  ///< as the scenario names it
  std::map<std::int32_t, experiment::RetailFit> regressions_;
};

}  // namespace wattle::apps
