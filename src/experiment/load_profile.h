#pragma once
// The load profile of a scenario's engines: read from the repository, or measured in the simulator and stored there.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/load_profiler.h"
#include "config/load.h"
#include "model/classifier.h"
#include "model/plan.h"
#include "plan/load_table.h"
#include "predict/length_hint.h"
#include "systems/recipe.h"

namespace wattle::experiment {

/// The workload of a scenario by class (the recipe's classes if it states borders) with the objectives of the first
/// tier; lengths are clamped as in the scenario, and copies are ignored. Classes follow actual sizes, not predicted
/// ones: a profile describes a model and is used with any predictor (DynamoLLM, section IV-A). Errors: those of the
/// workload; a class without requests.
[[nodiscard]] Result<std::vector<calibrate::ClassRequests>> scenario_requests(const config::LoadedScenario& loaded,
                                                                              const config::ClassOptions& classes,
                                                                              const std::string& data_dir);

struct LoadProfileRequest {
  std::string repository;  ///< shared directory; empty: only the local cache
  calibrate::LoadProfilerOptions options;
  bool again = false;  ///< measure even if one exists, and publish it as the next version
  std::function<void(const std::string&)> progress;
};

/// The recipe's options for measuring profiles.
[[nodiscard]] LoadProfileRequest profile_request(const systems::Recipe& recipe);

/// For the first pool's GPU, at the TP degrees of the scenario's pools. One file per model, GPU, engine settings and
/// classes. Errors: bad input; an incomplete file in the repository.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> load_profile(
    const config::LoadedScenario& loaded, const std::vector<calibrate::ClassRequests>& classes,
    const LoadProfileRequest& request = {});

/// Checks that the table has all TP degrees of the scenario's pools. Errors: the missing one.
[[nodiscard]] Result<void> check_tps(const config::LoadedScenario& loaded, const plan::LoadTable& table);

/// Stores a table measured on live engines where load_profile() looks for it, as the next version; returns the version.
/// Errors: those of check_tps; a directory that cannot be written.
[[nodiscard]] Result<int> publish_profile(const config::LoadedScenario& loaded,
                                          const std::vector<calibrate::ClassRequests>& classes,
                                          const LoadProfileRequest& request, const plan::LoadTable& table);

/// load_profile() for scenario_requests().
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> scenario_profile(const config::LoadedScenario& loaded,
                                                                              const config::ClassOptions& classes,
                                                                              const std::string& data_dir,
                                                                              const LoadProfileRequest& request = {});
/// The same for a fleet with one kind of GPU, at any sites and in any [[fleet]] entries: a profile per kind and TP
/// degree.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> kind_profile(const config::LoadedScenario& loaded,
                                                                          const config::ClassOptions& classes,
                                                                          const std::string& data_dir,
                                                                          const LoadProfileRequest& request = {});

/// The same for a prefill/decode pair: a prefill instance of the scenario's pool `pair.prefill` and a decode instance
/// of `pair.decode` at these clocks. Profiles are stored under the prefill instance's TP degree and clock; limits that
/// no such pair meets are unchanged.
struct ProfiledPairOf {
  PairShape pair;
  MegaHertz prefill_clock, decode_clock;
};
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> pair_profile(const config::LoadedScenario& loaded,
                                                                          const config::ClassOptions& classes,
                                                                          const std::string& data_dir,
                                                                          const ProfiledPairOf& of,
                                                                          const LoadProfileRequest& request = {});

/// Requests per second of each class in the scenario's workload, by minute. `hint`: by predicted class; null: by actual
/// class. `loads`: converted to the load in requests of the predicted class. Errors: those of the workload.
[[nodiscard]] Result<std::vector<std::vector<double>>> rates_by_minute(const config::LoadedScenario& loaded,
                                                                       const config::ClassOptions& classes,
                                                                       const std::string& data_dir,
                                                                       predict::LengthHint* hint = nullptr,
                                                                       const plan::LoadTable* loads = nullptr);

/// Requests per second of each class in the scenario's workload, in its busiest five minutes: the load for which fixed
/// fleets are sized. Errors: those of the workload.
[[nodiscard]] Result<std::vector<double>> busiest_rates(const config::LoadedScenario& loaded,
                                                        const config::ClassOptions& classes,
                                                        const std::string& data_dir,
                                                        predict::LengthHint* hint = nullptr,
                                                        const plan::LoadTable* loads = nullptr);

}  // namespace wattle::experiment
