#pragma once
// Runs side by side: loaded from their directories, labelled, set against a baseline.
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "journal/run_directory.h"
#include "report/phases.h"
#include "report/timeline.h"

namespace wattle::report {

/// Distinct colours of runs on the page; the first is neutral.
inline constexpr std::size_t kColours = 8;
/// Ways to draw the other colours: lines whole or dashed, dots full or hollow.
inline constexpr std::size_t kDashes = 4;
/// Runs beside the baseline that look unlike each other.
inline constexpr std::size_t kAppearances = (kColours - 1) * kDashes;

struct Run {
  /// What ran: "simulated", "emulated" (live, on virtual GPUs), "measured live", "live, energy not metered", or what
  /// the journal calls its driver.
  [[nodiscard]] std::string kind() const;

  std::string directory;
  std::string label;  ///< the recipe; with scenario, seed or a number where that alone would not tell two runs apart
  journal::RunFile file;
  std::vector<PhaseSpan> phases;     ///< empty when no engine came or went
  std::optional<Timeline> timeline;  ///< absent when the run wrote no timeseries.csv
};

/// Relative to the baseline's: -0.2 is 20 % less. NaN when the baseline's is 0.
struct Versus {
  double energy = 0.0;
  double carbon = 0.0;
  double cost = 0.0;
  double tokens_per_joule = 0.0;
  double attainment = 0.0;  ///< difference of shares, in points / 100
  bool did_less = false;    ///< RunSummary::did_less_than: energy, carbon and cost are NaN, as no saving is stated
};

struct Comparison {
  std::vector<Run> runs;
  std::size_t baseline = 0;
  bool same_work = true;  ///< one scenario and seed; else savings compare unlike work

  [[nodiscard]] Versus versus(const Run& run) const;
  /// A place in the palette, up to kAppearances, after which they repeat: the baseline always gets the first, neutral
  /// one; beyond the colours, the same with dashes.
  [[nodiscard]] std::size_t colour(std::size_t run) const {
    return run == baseline ? 0 : 1 + (run < baseline ? run : run - 1) % kAppearances;
  }
};

/// Each path is a run directory, or a directory of run directories (as `wattle sim --out` leaves behind), taken in name
/// order. `baseline` is a recipe or label; empty: the first run named static-max, else the first run. Errors name the
/// file, line and remedy.
[[nodiscard]] Result<Comparison> load(const std::vector<std::string>& paths, const std::string& baseline);

[[nodiscard]] nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace wattle::report
