#pragma once
// What throttLL'eM's sections share: the engines, their right-scaled loads and the runs.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/saturation.h"
#include "experiment/simulate.h"
#include "reproduce/evaluation.h"

namespace wattle::reproduce::throttllem {

/// Table III: R2, MAPE (%) and MAE (iterations/s), learned from 90 % or from 10 % of the samples.
struct PublishedScore {
  double r2, mape, mae;
};

struct Engine {
  std::string_view name;
  const char* scenario;
  double max_load_per_s;  ///< Table II, as the two below
  double e2e_slo_s;
  int kv_blocks;
  PublishedScore learned_from_90;
  PublishedScore learned_from_10;
};
inline constexpr auto kEngines = std::to_array<Engine>({
    {"llama3-8b-tp1", "throttllem-llama3-8b-tp1", 13.0, 37.7, 1033, {0.99, 4.1, 0.85}, {0.98, 4.2, 0.93}},
    {"llama2-13b-tp1", "throttllem-llama2-13b-tp1", 1.125, 22.7, 120, {0.98, 2.8, 0.74}, {0.97, 3.0, 0.79}},
    {"llama2-13b-tp2", "throttllem-llama2-13b-tp2", 4.0, 30.2, 439, {0.99, 3.1, 0.90}, {0.99, 3.4, 0.99}},
    {"llama2-13b-tp4", "throttllem-llama2-13b-tp4", 7.5, 31.3, 1050, {0.99, 3.3, 0.97}, {0.99, 3.4, 1.01}},
    {"llama3-70b-tp8", "throttllem-llama3-70b-tp8", 7.0, 44.0, 2205, {0.97, 5.8, 0.69}, {0.96, 6.5, 0.77}},
});
inline constexpr const Engine& kTp4 = kEngines[3];

/// The Azure 2023 conversation trace peaks there (Section V-A).
inline constexpr double kTracePeakPerS = 8.25;

/// What the engine carries with our physics, and with which objective: the paper takes the p99 of E2E at maximum load
/// as the objective, so ours is the rate at which our p99 reaches the paper's. Measured once per process. `lengths`:
/// workload.load_lengths; empty: the trace's own.
[[nodiscard]] Result<experiment::MaxLoad> max_load(const Engine& engine, const std::string& lengths = "");

/// The engine's scenario with the trace's peak scaled to `load` x its own maximum load and its own objective. `more`:
/// further overrides, key=value.
[[nodiscard]] Result<config::LoadedScenario> right_scaled(const Engine& engine, double load = 1.0,
                                                          const std::vector<std::string>& more = {});

/// One run. `set`: recipe overrides, key=value.
[[nodiscard]] Result<journal::RunSummary> run(const config::LoadedScenario& scenario, const char* recipe,
                                              const std::vector<std::string>& set = {});

/// Overrides of a recipe: lengths known but for an error with this 95th percentile, and taken as much longer.
[[nodiscard]] std::vector<std::string> with_error(double p95);

/// The mean batch: a request gets one token per iteration.
[[nodiscard]] double mean_batch(const journal::RunSummary& summary);

[[nodiscard]] double percent_saved(double ours, double baseline);

[[nodiscard]] Result<Section> saturation();    ///< Table II
[[nodiscard]] Result<Section> model();         ///< Table III
[[nodiscard]] Result<Section> projection();    ///< Figure 7
[[nodiscard]] Result<Section> throttling();    ///< Figures 8 and 9: without autoscaling
[[nodiscard]] Result<Section> lengths();       ///< ours: every length predictor
[[nodiscard]] Result<Section> autoscaling();   ///< Figures 10 and 12
[[nodiscard]] Result<Section> slack();         ///< ours: little load, no objective
[[nodiscard]] Result<Section> loads();         ///< ours: nearer to full
[[nodiscard]] Result<Section> rate_windows();  ///< ours: rate_window_s over its range
[[nodiscard]] Result<Section> runtime();       ///< Figure 11
[[nodiscard]] Result<Section> load_sweep();    ///< Figure 13
[[nodiscard]] Result<Section> retail();        ///< Figure 14
[[nodiscard]] Result<Section> mixtral();       ///< Figure 15
[[nodiscard]] Result<Section> sweet_spot();    ///< Figure 2

}  // namespace wattle::reproduce::throttllem
