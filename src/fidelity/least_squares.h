#pragma once
// Deterministic robust least squares: Levenberg-Marquardt with box bounds, a soft-L1 loss and a weak prior.
#include <functional>
#include <vector>

namespace wattle::fidelity {

struct FitParameter {
  double start = 0.0;
  double low = 0.0;
  double high = 1.0;
  double prior = 0.0;         ///< value of the parameter without information from the data
  double prior_weight = 0.0;  ///< per (unit of the range)^2
};

struct FitResult {
  std::vector<double> values;
  double cost_before = 0.0;
  double cost = 0.0;
};

struct FitEffort {
  double scale = 1.0;    ///< residual at which the loss becomes linear
  int iterations = 12;   ///< at most, per start and width of differences
  int other_starts = 0;  ///< around the best point so far, for costs with several minima
};

/// Soft-L1 cost of weighted residuals; NaN counts as zero.
[[nodiscard]] double robust_cost(const std::vector<double>& residuals, double scale);

/// `residuals` maps parameters to weighted residuals; NaN counts as zero.
[[nodiscard]] FitResult fit_least_squares(
    const std::vector<FitParameter>& parameters,
    const std::function<std::vector<double>(const std::vector<double>&)>& residuals, const FitEffort& effort);

}  // namespace wattle::fidelity
