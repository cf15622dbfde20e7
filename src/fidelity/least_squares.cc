#include "fidelity/least_squares.h"

#include <algorithm>
#include <cmath>

namespace wattle::fidelity {
namespace {

/// Solves A x = b for a symmetric positive definite A (row major), in place; false when A is not.
bool cholesky_solve(std::vector<double>& a, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      if (i == j) {
        if (sum <= 0.0) return false;
        a[j * n + j] = std::sqrt(sum);
      } else {
        a[i * n + j] = sum / a[j * n + j];
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  return true;
}

double soft_l1(double r, double scale) {
  const double z = r / scale;
  return 2.0 * scale * scale * (std::sqrt(1.0 + z * z) - 1.0);
}

/// The problem in units of each parameter's range.
class Problem {
 public:
  using Residuals = std::function<std::vector<double>(const std::vector<double>&)>;
  Problem(const std::vector<FitParameter>& parameters, const Residuals& residuals, double scale)
      : parameters_(parameters), residuals_(residuals), scale_(scale) {}

  [[nodiscard]] std::size_t size() const { return parameters_.size(); }
  [[nodiscard]] std::vector<double> start() const {
    std::vector<double> u;
    for (const FitParameter& p : parameters_) u.push_back(std::clamp(unit(p, p.start), 0.0, 1.0));
    return u;
  }
  [[nodiscard]] std::vector<double> values(const std::vector<double>& at) const {
    std::vector<double> v;
    for (std::size_t i = 0; i < size(); ++i)
      v.push_back(parameters_[i].low + at[i] * (parameters_[i].high - parameters_[i].low));
    return v;
  }
  /// Those that are no numbers count as zero.
  [[nodiscard]] std::vector<double> residuals(const std::vector<double>& at) const {
    std::vector<double> r = residuals_(values(at));
    for (double& x : r) x = std::isfinite(x) ? x : 0.0;
    return r;
  }
  [[nodiscard]] double cost(const std::vector<double>& r, const std::vector<double>& at) const {
    double cost = 0.0;
    for (const double x : r) cost += soft_l1(x, scale_);
    for (std::size_t i = 0; i < size(); ++i) {
      const double d = at[i] - unit(parameters_[i], parameters_[i].prior);
      cost += parameters_[i].prior_weight * d * d;
    }
    return cost;
  }

  struct Normal {
    std::vector<double> matrix;    ///< row major
    std::vector<double> gradient;  ///< downhill
  };
  /// Of the reweighted linear problem at `at`, where the residuals are `r`.
  [[nodiscard]] Normal normal(const std::vector<double>& at, const std::vector<double>& r) const {
    const std::size_t n = size();
    const std::vector<std::vector<double>> columns = derivatives(at, r);
    std::vector<double> weight(r.size());
    for (std::size_t k = 0; k < r.size(); ++k) weight[k] = 1.0 / std::sqrt(1.0 + (r[k] / scale_) * (r[k] / scale_));
    Normal made{std::vector<double>(n * n, 0.0), std::vector<double>(n, 0.0)};
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0.0;
        for (std::size_t k = 0; k < r.size(); ++k) sum += weight[k] * columns[i][k] * columns[j][k];
        made.matrix[i * n + j] = made.matrix[j * n + i] = sum;
      }
      for (std::size_t k = 0; k < r.size(); ++k) made.gradient[i] -= weight[k] * columns[i][k] * r[k];
      made.matrix[i * n + i] += parameters_[i].prior_weight;
      made.gradient[i] += parameters_[i].prior_weight * (unit(parameters_[i], parameters_[i].prior) - at[i]);
    }
    return made;
  }

 private:
  static double unit(const FitParameter& p, double value) { return (value - p.low) / (p.high - p.low); }

  [[nodiscard]] std::vector<std::vector<double>> derivatives(const std::vector<double>& at,
                                                             const std::vector<double>& r) const {
    constexpr double kStep = 0.03;  // runs with queues are not smooth: a wide step looks past their noise
    std::vector<std::vector<double>> columns;
    for (std::size_t j = 0; j < size(); ++j) {
      std::vector<double> moved = at;
      const double step = moved[j] + kStep <= 1.0 ? kStep : -kStep;
      moved[j] += step;
      columns.push_back(residuals(moved));
      for (std::size_t k = 0; k < r.size(); ++k) columns[j][k] = (columns[j][k] - r[k]) / step;
    }
    return columns;
  }

  const std::vector<FitParameter>& parameters_;
  const Residuals& residuals_;
  double scale_;
};

/// Where a damped step from `u` leads, inside the box; empty: the damping is too weak for a step.
std::vector<double> damped_step(const Problem::Normal& normal, const std::vector<double>& u, double damping) {
  const std::size_t n = u.size();
  std::vector<double> a = normal.matrix;
  std::vector<double> step = normal.gradient;
  for (std::size_t i = 0; i < n; ++i) {
    a[i * n + i] += damping * (normal.matrix[i * n + i] + 1e-6);
    // A parameter at its bound stays there if its gradient points outside.
    const bool stuck = (u[i] <= 0.0 && normal.gradient[i] < 0.0) || (u[i] >= 1.0 && normal.gradient[i] > 0.0);
    if (!stuck) continue;
    for (std::size_t j = 0; j < n; ++j) a[i * n + j] = a[j * n + i] = 0.0;
    a[i * n + i] = 1.0;
    step[i] = 0.0;
  }
  if (!cholesky_solve(a, step)) return {};
  std::vector<double> next = u;
  for (std::size_t i = 0; i < n; ++i) next[i] = std::clamp(u[i] + step[i], 0.0, 1.0);
  return next;
}

}  // namespace

FitResult fit_least_squares(const std::vector<FitParameter>& parameters,
                            const std::function<std::vector<double>(const std::vector<double>&)>& residuals,
                            double scale, int max_iterations) {
  const Problem problem(parameters, residuals, scale);
  std::vector<double> u = problem.start();
  std::vector<double> r = problem.residuals(u);
  FitResult result;
  result.cost = result.cost_before = problem.cost(r, u);
  double damping = 1e-2;
  for (double gain = 1.0; gain >= 5e-4 && result.iterations < max_iterations;) {
    ++result.iterations;
    const Problem::Normal normal = problem.normal(u, r);
    gain = 0.0;
    for (int attempt = 0; attempt < 8; ++attempt, damping *= 4.0) {
      std::vector<double> next = damped_step(normal, u, damping);
      if (next.empty()) continue;
      std::vector<double> next_r = problem.residuals(next);
      const double next_cost = problem.cost(next_r, next);
      if (!(next_cost < result.cost)) continue;
      gain = (result.cost - next_cost) / result.cost;
      u = std::move(next);
      r = std::move(next_r);
      result.cost = next_cost;
      damping = std::max(1e-6, damping * 0.3);
      break;
    }
  }
  result.values = problem.values(u);
  return result;
}

}  // namespace wattle::fidelity
