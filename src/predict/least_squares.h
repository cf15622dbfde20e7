#pragma once
// Least squares with non-negative coefficients for up to four features, plain and robust. Exact and deterministic.
#include <array>
#include <cstddef>
#include <span>

namespace wattle::predict {

inline constexpr std::size_t kMaxFeatures = 4;
using Coefficients = std::array<double, kMaxFeatures>;

struct Row {
  std::array<double, kMaxFeatures> x{};  ///< unused features stay 0
  double y = 0.0;
};

/// Weighted second moments of rows: all that least squares needs, and subtractable, so that any run of rows can be
/// fitted from two prefix sums.
class Moments {
 public:
  void add(const Row& row, double weight = 1.0);
  [[nodiscard]] Moments operator+(const Moments& o) const { return plus(o, 1.0); }
  [[nodiscard]] Moments operator-(const Moments& o) const { return plus(o, -1.0); }

  struct Solution {
    Coefficients coefficients{};
    double residual = 0.0;  ///< weighted sum of squared errors, >= 0
  };
  /// The exact non-negative optimum: it is the unconstrained optimum on its own support, and there are at most 16
  /// supports. Features without variation get coefficient 0.
  [[nodiscard]] Solution solve_non_negative() const;

 private:
  [[nodiscard]] Moments plus(const Moments& o, double sign) const;

  std::array<std::array<double, kMaxFeatures>, kMaxFeatures> xx_{};
  std::array<double, kMaxFeatures> xy_{};
  double yy_ = 0.0;
};

/// Least absolute deviations first, Tukey's biweight (4.685 robust standard deviations) from there, both by iteratively
/// re-weighted non-negative least squares. Samples that are wildly too long (a preempted or throttled step) end with no
/// weight at all, where Huber's estimator would keep leaning towards them: they are all on one side.
[[nodiscard]] Coefficients fit_robust(std::span<const Row> rows);

[[nodiscard]] inline double predict_row(const Coefficients& c, const Row& row) {
  double y = 0.0;
  for (std::size_t i = 0; i < kMaxFeatures; ++i) y += c[i] * row.x[i];
  return y;
}

}  // namespace wattle::predict
