#pragma once
// Shared by the sections on VoltanaLLM's analyses: systems, runs and common rows.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "journal/record.h"
#include "journal/summary.h"
#include "reproduce/voltanallm.h"
#include "workload/source.h"

namespace wattle::reproduce {

/// The system under evaluation. GreenServe's predictor trains and refits, which takes seconds a run, so it has fewer
/// rates.
struct System {
  std::string_view name;
  const char* recipe;
  const char* five_levels;
  std::span<const std::int64_t> rates;  ///< requests/s, of ShareGPT's lengths on Llama-3.1-8B
};
extern const System kVoltana;
extern const System kGreenServe;

/// The model and lengths of all analyses.
inline constexpr const PublishedModel& kLlama = kModels[1];
inline constexpr const PublishedLengths& kShareGpt = kLengths[0];

/// The analyses' scenario: kLlama, kShareGpt, arrivals for `seconds`. `more`: further overrides.
[[nodiscard]] Result<config::LoadedScenario> analysed_scenario(std::int64_t rate, double seconds,
                                                               std::vector<std::string> more = {});

/// EcoFreq's share of the objectives in all analyses: the published client gives it 45 ms between tokens where
/// attainment is judged at 60 ms, and ten times that to the first.
inline constexpr double kAim = 0.75;

/// A recipe and overrides of it, key=value; unless they say otherwise, EcoFreq aims at kAim of the objectives and
/// prompts are placed by kPrefillRouting.
struct Controlled {
  const char* recipe;
  std::vector<std::string> set = {};
};

[[nodiscard]] Result<journal::RunSummary> serve(const config::LoadedScenario& scenario, const Controlled& how);

/// A run with its samples, `period` apart, in order of time. `source`: instead of the scenario's own workload.
struct Sampled {
  journal::RunSummary summary;
  std::vector<journal::Sample> samples;
};
[[nodiscard]] Result<Sampled> serve_sampled(const config::LoadedScenario& scenario, const Controlled& how, Span period,
                                            std::unique_ptr<workload::RequestSource> source = nullptr);

/// Rows of one run: energy of prefill and of decode, energy of instances without work, both attainments. ITL
/// attainment: share of requests with a mean gap within the objective, as in section main.
void add_phases(Section& section, const std::string& base, const journal::RunSummary& run);
void add_attainment(Section& section, const std::string& base, const journal::RunSummary& run);

/// Without a published value.
void add_row(Section& section, std::string id, const char* unit, double ours);

/// Lines of a plot by name, filled point by point.
class PlotMaker {
 public:
  PlotMaker(std::string title, std::string x_unit, std::string y_unit)
      : plot_{std::move(title), std::move(x_unit), std::move(y_unit), {}} {}
  void add(std::string_view line, double x, double y);
  [[nodiscard]] Plot take() { return std::move(plot_); }

 private:
  Plot plot_;
};

[[nodiscard]] inline double saved_percent(double ours, double baseline) { return 100.0 * (1.0 - ours / baseline); }

[[nodiscard]] Result<Section> ablation(const System& system, double seconds);      ///< Figure 14
[[nodiscard]] Result<Section> border(const System& system, double seconds);        ///< Figures 9 and 16
[[nodiscard]] Result<Section> slo_profiles(const System& system, double seconds);  ///< Figure 17
[[nodiscard]] Result<Section> levels(const System& system, double seconds);        ///< Figure 18
[[nodiscard]] Result<Section> windows(const System& system, double seconds);       ///< Figure 19
[[nodiscard]] Result<Section> swing(const System& system, double seconds);         ///< Table 1 and Figure 21
[[nodiscard]] Result<Section> gh200(const System& system, double seconds);
[[nodiscard]] Result<Section> routings(const System& system, double seconds);
[[nodiscard]] Result<Section> constants(const System& system, double seconds);  ///< ours: constants chosen by hand
[[nodiscard]] Result<Section> left_out(const System& system, double seconds);   ///< ours: each model left out
[[nodiscard]] Result<Section> watchdog(const System& system, double seconds);

}  // namespace wattle::reproduce
