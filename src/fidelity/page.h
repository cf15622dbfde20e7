#pragma once
// Formats scores: docs/validation.md and an HTML page with scatter plots.
#include <string>
#include <vector>

#include "fidelity/score.h"

namespace wattle::fidelity {

/// A target of this project, and its present value.
struct Target {
  std::string name;
  std::string target;
  double limit = 0.0;
  double value = 0.0;
  std::size_t rows = 0;
  double mean = 0.0;  ///< of the same errors
  double p90 = 0.0;
  [[nodiscard]] bool met() const { return value <= limit; }
};

/// Targets on rows that the fit has not seen; those without rows are left out.
[[nodiscard]] std::vector<Target> targets(const Scores& scores);

/// A target on whole runs, evaluated elsewhere.
struct RunTarget {
  std::string name;
  std::string target;
  double value = 0.0;
  bool met = false;
};

[[nodiscard]] std::string to_markdown(const Scores& scores, const std::vector<std::string>& absent,
                                      const std::vector<RunTarget>& of_runs);
/// One self-contained page: a scatter plot of simulated against measured per set and quantity.
[[nodiscard]] std::string to_html(const Scores& scores);

/// Every row; columns set,row,gpu,quantity,fitted,extrapolated,measured,simulated,error.
[[nodiscard]] std::string to_csv(const Scores& scores);

/// The rows with the largest errors, at most `per_set` of one set and `count` in all.
[[nodiscard]] std::vector<const ScoredRow*> worst(const Scores& scores, std::size_t count, std::size_t per_set);

}  // namespace wattle::fidelity
