#pragma once
// Experiments under a set of profiles: simulated values, errors, and errors grouped by set and quantity.
#include <limits>
#include <string>
#include <vector>

#include "fidelity/experiment.h"

namespace wattle::fidelity {

struct ScoredRow {
  std::string set;
  std::string row;
  std::string gpu;
  std::string quantity;
  double measured = 0.0;
  double simulated = 0.0;
  double error = 0.0;  ///< simulated / measured - 1; of a percentage: the difference, 0.01 per point
  double mfu_error = std::numeric_limits<double>::quiet_NaN();  ///< of the rival power models; NaN: no power
  double constants_error = std::numeric_limits<double>::quiet_NaN();
  bool fitted = false;
  bool extrapolated = false;  ///< asks for something outside what the profile was fitted on
};

struct ScoredSet {
  std::string set;
  std::string quantity;
  bool fitted = false;
  std::size_t rows = 0;
  std::size_t extrapolated = 0;  ///< of these, outside the profile's measured range
  double mape = 0.0, median = 0.0, p90 = 0.0, bias = 0.0;
  double mfu_power_law = 0.0, three_constants = 0.0;  ///< MAPE, NaN where no power is compared
};

struct Scores {
  std::vector<ScoredRow> rows;
  std::vector<ScoredSet> sets;          ///< fitted and never-fitted rows of a set apart
  std::vector<std::string> infeasible;  ///< rows that our model says cannot run, with their sets
};

/// Runs every experiment whose GPU has a profile, on `threads` threads; the result does not depend on their number.
[[nodiscard]] Scores score(const std::vector<Experiment>& experiments, const Catalog& catalog, unsigned threads,
                           bool rivals);

/// Rows grouped by set, quantity and whether they were fitted. Rows without a finite error count as infeasible.
[[nodiscard]] Scores scores_of(std::vector<ScoredRow> rows);

}  // namespace wattle::fidelity
