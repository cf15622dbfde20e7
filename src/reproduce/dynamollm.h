#pragma once
// What DynamoLLM's sections share: the service of the evaluation, its engines' profile, and runs of the recipes on it.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/load_profiler.h"
#include "config/load.h"
#include "journal/summary.h"
#include "plan/load_table.h"
#include "plan/sharding.h"
#include "reproduce/evaluation.h"

namespace wattle::reproduce::dynamollm {

// dynamollm_runs.cc

/// The hour of section V-B with these overrides.
[[nodiscard]] Result<config::LoadedScenario> hour_scenario(const std::vector<std::string>& set = {});

/// Profiles of the nine classes on the scenario's engines, without prediction error; measured once and kept in the
/// profile repository. `only`: this class alone, at the tables' clocks.
[[nodiscard]] Result<std::shared_ptr<const plan::LoadTable>> profile_of(const config::LoadedScenario& scenario);

/// Requests per second of each class, and how many servers they are at TP8 and the highest clock.
struct HourLoad {
  std::vector<double> busiest_per_s;  ///< by class, in the minute that needs most servers
  std::vector<double> peak_per_s;     ///< by class, in its own busiest minute
  double busiest_servers = 0.0, mean_servers = 0.0;
  double servers_of_peaks = 0.0;   ///< all classes at their own busiest minute at once
  std::size_t busiest_window = 0;  ///< first minute of the busiest ten, since `start`
  Span start;                      ///< of the scenario's slice of its trace
};
[[nodiscard]] Result<HourLoad> load_of(const config::LoadedScenario& scenario);

/// A recipe on a scenario, with overrides of both.
struct Run {
  std::string recipe;
  std::vector<std::string> set = {};
  std::string scenario = "dynamollm-hour";
  std::vector<std::string> scenario_set = {};
};

/// Of instances, over some while.
struct Occupied {
  std::map<int, double> gpus;  ///< mean, by TP degree
  double clock_mhz = 0.0;      ///< mean over GPUs with an instance
  [[nodiscard]] double all_gpus() const;
};

struct PoolUse {
  double energy_kwh = 0.0;
  double gpus = 0.0;        ///< mean, with an instance
  double idle_share = 0.0;  ///< of GPU time: no request there
  double batch = 0.0;       ///< mean decoding requests of a busy instance
  double clock_mhz = 0.0;   ///< mean over GPUs
};

struct FleetRun {
  journal::RunSummary summary;
  std::vector<Occupied> minutes;
  std::vector<std::vector<Occupied>> pool_minutes;  ///< by pool
  std::vector<PoolUse> pools;                       ///< one where the fleet has none
  std::vector<double> power_w;                      ///< of the instances together, every two seconds
  [[nodiscard]] double power_w_at(double quantile) const;
  [[nodiscard]] double kwh() const { return summary.energy.total.value() / 3.6e6; }
  [[nodiscard]] double spare_kwh() const;     ///< of that: GPUs of servers in use without an instance
  [[nodiscard]] double mean_gpus() const;     ///< with an instance
  [[nodiscard]] double mean_servers() const;  ///< in use
};
/// The recipe as it ships, in the simulator. Errors: bad input of any file.
[[nodiscard]] Result<FleetRun> run(const Run& what);

/// The busiest ten minutes of a scenario, as overrides of it.
[[nodiscard]] std::vector<std::string> peak_of(const HourLoad& load);
/// Share of objectives met at the peak by a common pool of so many servers at TP8 and the highest clock, for the class
/// with the smallest share. A pool "handles the peak load" if every class has its p99 within the objective.
[[nodiscard]] Result<double> kept_at_the_peak(const std::string& scenario, const HourLoad& load, int servers,
                                              const std::vector<std::string>& scenario_set = {});
/// Poisson arrivals for twenty minutes with the trace's lengths, as overrides of the hour: this share of the rate that
/// twelve servers carry. Low, medium and high load are 650, 2,000 and 4,000 of the 4,000 tokens/s that Table II calls
/// high.
[[nodiscard]] std::vector<std::string> poisson_of(const HourLoad& load, double share);
inline constexpr double kLowLoad = 650.0 / 4000.0, kMediumLoad = 0.5, kHighLoad = 1.0;
inline constexpr double kHandled = 0.99;

/// One pool of `gpus` GPUs in instances of one TP degree at one clock.
[[nodiscard]] Run fixed_fleet(int tp, int mhz, int gpus = 96);

/// The least energy of one fixed TP degree and clock that meets at most this share fewer objectives than `base`.
inline constexpr double kAllowedMiss = 0.01;
struct Fixed {
  int tp = 8, mhz = 1980;
  FleetRun run;
};
/// Fixed clocks for these TP degrees, of seven; none: none meets the objectives. `all` is called for each.
[[nodiscard]] Result<std::vector<Fixed>> fixed_clocks(const Run& like, const std::vector<int>& degrees, int gpus);
[[nodiscard]] const Fixed* best_of(const std::vector<Fixed>& all, const FleetRun& base, int tp = 0);

[[nodiscard]] inline double percent(double ours, double base) { return 100.0 * (ours / base - 1.0); }

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

[[nodiscard]] Result<Section> hour();                ///< Figures 7 to 9, and honest baselines
[[nodiscard]] Result<Section> constants();           ///< ours: constants that the paper does not state, at other values
[[nodiscard]] Result<Section> timeline();            ///< Figures 10 and 11
[[nodiscard]] Result<Section> accuracy();            ///< Figure 12
[[nodiscard]] Result<Section> load_levels();         ///< Figure 13
[[nodiscard]] Result<Section> pool_counts();         ///< Figure 14
[[nodiscard]] Result<Section> day();                 ///< Figure 16
[[nodiscard]] Result<Section> week(double seconds);  ///< Figures 15 and 17, section V-F

}  // namespace wattle::reproduce::dynamollm
