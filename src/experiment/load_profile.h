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
#include "plan/load_table.h"

namespace wattle::experiment {

/// The scenario's workload by class, prompts and outputs clamped as it clamps them. Limits by class. Errors: those of
/// the workload; a class that it has no request of.
[[nodiscard]] Result<std::vector<calibrate::ClassRequests>> class_requests(const config::LoadedScenario& loaded,
                                                                           const std::string& data_dir,
                                                                           const Classifier& classes,
                                                                           std::span<const plan::ShardLimits> limits);

struct LoadProfileRequest {
  std::string repository;  ///< shared directory; empty: the local cache alone
  calibrate::LoadProfilerOptions options;
  bool again = false;  ///< measured even though there is one, and published as the next version
  std::function<void(const std::string&)> progress;
};

/// Of the first pool's GPU, at the TP degrees of the scenario's pools. One file per model, GPU, engine settings and
/// classes, whatever the service. Errors: bad input; a file of the repository that is not whole.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> load_profile(
    const config::LoadedScenario& loaded, const std::vector<calibrate::ClassRequests>& classes,
    const LoadProfileRequest& request = {});

/// Of a scenario's classes, with their objectives (of its first tier), or of a recipe's where that states borders.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> scenario_profile(const config::LoadedScenario& loaded,
                                                                              const config::ClassOptions& classes,
                                                                              const std::string& data_dir,
                                                                              const LoadProfileRequest& request = {});

/// Requests per second of each class of the scenario's workload in its busiest minute, as predictions without error
/// would sort them: what fixed fleets are sized for. Errors: those of the workload.
[[nodiscard]] Result<std::vector<double>> busiest_rates(const config::LoadedScenario& loaded,
                                                        const config::ClassOptions& classes,
                                                        const std::string& data_dir);

}  // namespace wattle::experiment
