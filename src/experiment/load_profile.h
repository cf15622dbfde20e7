#pragma once
// The load profile of a scenario's engines: from the repository, or measured in the simulator and put there.
#include <functional>
#include <memory>
#include <span>
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

/// The workload of a scenario by its classes, or by a recipe's where that states borders, with their objectives (of the
/// first tier); prompts and outputs clamped as it clamps them, each once whatever its copies. By what requests are, not
/// by what they are predicted to be: a profile is of a model, and serves whatever predictor (DynamoLLM, section IV-A).
/// Errors: those of the workload; a class that it has no request of.
[[nodiscard]] Result<std::vector<calibrate::ClassRequests>> scenario_requests(const config::LoadedScenario& loaded,
                                                                              const config::ClassOptions& classes,
                                                                              const std::string& data_dir);

struct LoadProfileRequest {
  std::string repository;  ///< shared directory; empty: the local cache alone
  calibrate::LoadProfilerOptions options;
  bool again = false;  ///< measured even though there is one, and published as the next version
  std::function<void(const std::string&)> progress;
};

/// What a recipe says of how profiles are measured.
[[nodiscard]] LoadProfileRequest profile_request(const systems::Recipe& recipe);

/// Of the first pool's GPU, at the TP degrees of the scenario's pools. One file per model, GPU, engine settings and
/// classes, whatever the service. Errors: bad input; a file of the repository that is not whole.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> load_profile(
    const config::LoadedScenario& loaded, const std::vector<calibrate::ClassRequests>& classes,
    const LoadProfileRequest& request = {});

/// Does the table have all TP degrees of the scenario's pools? Errors: the one that it lacks.
[[nodiscard]] Result<void> check_tps(const config::LoadedScenario& loaded, const plan::LoadTable& table);

/// Puts a table measured of live engines where load_profile() looks, as the next version; which. Errors: those of
/// check_tps; a directory that cannot be written.
[[nodiscard]] Result<int> publish_profile(const config::LoadedScenario& loaded,
                                          const std::vector<calibrate::ClassRequests>& classes,
                                          const LoadProfileRequest& request, const plan::LoadTable& table);

/// Of scenario_requests().
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> scenario_profile(const config::LoadedScenario& loaded,
                                                                              const config::ClassOptions& classes,
                                                                              const std::string& data_dir,
                                                                              const LoadProfileRequest& request = {});
/// Likewise of a fleet of one kind of GPU, at whatever sites and in whatever entries: a profile per kind and TP degree.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> kind_profile(const config::LoadedScenario& loaded,
                                                                          const config::ClassOptions& classes,
                                                                          const std::string& data_dir,
                                                                          const LoadProfileRequest& request = {});

/// Likewise of a P/D pair: a prefill instance of the scenario's pool `pair.prefill` and a decode instance of
/// `pair.decode` at these clocks. Profiles are of the prefill instance's TP degree and clock; limits that no such pair
/// keeps stay.
struct ProfiledPairOf {
  PairShape pair;
  MegaHertz prefill_clock, decode_clock;
};
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> pair_profile(const config::LoadedScenario& loaded,
                                                                          const config::ClassOptions& classes,
                                                                          const std::string& data_dir,
                                                                          const ProfiledPairOf& of,
                                                                          const LoadProfileRequest& request = {});

/// Requests per second of each class of the scenario's workload, minute by minute; `hint`: of the class that it takes
/// them for, null: of what they are; `loads`: as much load as they are, in requests of that class. Errors: those of the
/// workload.
[[nodiscard]] Result<std::vector<std::vector<double>>> rates_by_minute(const config::LoadedScenario& loaded,
                                                                       const config::ClassOptions& classes,
                                                                       const std::string& data_dir,
                                                                       predict::LengthHint* hint = nullptr,
                                                                       const plan::LoadTable* loads = nullptr);

/// Requests per second of each class of the scenario's workload in its busiest five minutes: what fixed fleets are
/// sized for.
/// Errors: those of the workload.
[[nodiscard]] Result<std::vector<double>> busiest_rates(const config::LoadedScenario& loaded,
                                                        const config::ClassOptions& classes,
                                                        const std::string& data_dir,
                                                        predict::LengthHint* hint = nullptr,
                                                        const plan::LoadTable* loads = nullptr);

}  // namespace wattle::experiment
