#pragma once
// What DynamoLLM's sections share: classes, objectives and the profile of the evaluation's engines.
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "model/classifier.h"
#include "plan/load_table.h"
#include "plan/sharding.h"
#include "reproduce/evaluation.h"

namespace wattle::reproduce::dynamollm {

/// Table IV.
[[nodiscard]] Classifier nine_classes();
[[nodiscard]] std::vector<plan::ShardLimits> limits_of(const Classifier& classes);

[[nodiscard]] Result<config::LoadedScenario> hour_scenario(const std::vector<std::string>& set = {});

/// The nine classes of the hour's trace on its engines, measured once and kept in the profile repository.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> hour_profile();

/// Requests per second of each class in the hour's busiest minute, with the trace's rate scaled so that the load is
/// what twelve servers carry at TP8 and the highest clock (the paper provisions its baselines with twelve for the
/// peak).
struct HourLoad {
  double scale = 1.0;                 ///< of the trace's rate
  std::vector<double> busiest_per_s;  ///< by class, in the busiest minute
  std::vector<double> peak_per_s;     ///< by class, in its own busiest minute
  std::vector<double> mean_per_s;
};
[[nodiscard]] Result<HourLoad> hour_load();

/// A problem over the table's classes at these loads, requests per second.
[[nodiscard]] plan::ShardingProblem problem_of(const plan::LoadTable& table, const std::vector<double>& load_per_s,
                                               int gpus, Watts unused_gpu);

/// What 8 idle GPUs without a model draw in the paper, by GPU (section III-C).
inline constexpr double kBareGpuWatts = 550.0 / 8.0;

[[nodiscard]] Result<Section> by_class();    ///< Table I
[[nodiscard]] Result<Section> by_load();     ///< Table II
[[nodiscard]] Result<Section> by_model();    ///< Table III
[[nodiscard]] Result<Section> resharding();  ///< Table VI
[[nodiscard]] Result<Section> hierarchy();   ///< ours: the levels against the whole problem

[[nodiscard]] Result<Section> hour();         ///< Figures 7 to 9, and honest baselines
[[nodiscard]] Result<Section> timeline();     ///< Figures 10 and 11
[[nodiscard]] Result<Section> accuracy();     ///< Figure 12
[[nodiscard]] Result<Section> load_levels();  ///< Figure 13
[[nodiscard]] Result<Section> pool_counts();  ///< Figure 14

}  // namespace wattle::reproduce::dynamollm
