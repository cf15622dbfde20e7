#pragma once
// Experiments under a set of profiles: simulated values, errors, and errors grouped by set and quantity.
#include <map>
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
  double error = 0.0;      ///< simulated / measured - 1
  double mfu_error = 0.0;  ///< of the rival power models; NaN for other quantities
  double constants_error = 0.0;
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
  std::vector<ScoredSet> sets;  ///< fitted and never-fitted rows of a set apart
  std::size_t infeasible = 0;   ///< rows our model says cannot run
};

/// Runs every experiment whose GPU has a profile, on `threads` threads; the result does not depend on their number.
[[nodiscard]] Scores score(const std::vector<Experiment>& experiments, const Catalog& catalog, unsigned threads,
                           bool rivals);

}  // namespace wattle::fidelity
