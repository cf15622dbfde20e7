#pragma once
// Evaluates experiments under a set of profiles: simulated values, errors, and errors by set and quantity.
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
  double error = 0.0;  ///< simulated / measured - 1; for percentages: the difference, 0.01 per point
  double mfu_error = std::numeric_limits<double>::quiet_NaN();  ///< of the other power models; NaN: no power
  double constants_error = std::numeric_limits<double>::quiet_NaN();
  bool fitted = false;
  bool extrapolated = false;  ///< uses conditions outside the profile's fitted range
  std::string why_none = {};  ///< where `simulated` is no number
};

struct ScoredSet {
  std::string set;
  std::string quantity;
  bool fitted = false;
  std::size_t rows = 0;
  std::size_t extrapolated = 0;  ///< number of these outside the profile's measured range
  double mape = 0.0, median = 0.0, p90 = 0.0, bias = 0.0;
  double mfu_power_law = 0.0, three_constants = 0.0;  ///< MAPE; NaN without power
};

struct Scores {
  std::vector<ScoredRow> rows;
  std::vector<ScoredSet> sets;          ///< fitted and unfitted rows of a set separately
  std::vector<std::string> infeasible;  ///< rows that our model has no value of, with their sets and why
};

/// Simulates all experiments on `threads` threads; the result does not depend on their number.
[[nodiscard]] Scores score(const std::vector<Experiment>& experiments, const Catalog& catalog, unsigned threads,
                           bool rivals);

/// Rows grouped by set, quantity and whether they were fitted. Rows without a finite error count as infeasible.
[[nodiscard]] Scores scores_of(std::vector<ScoredRow> rows);

}  // namespace wattle::fidelity
