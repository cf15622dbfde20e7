#include "fidelity/least_squares.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

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
    double cost = robust_cost(r, scale_);
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
  [[nodiscard]] Normal normal(const std::vector<double>& at, const std::vector<double>& r, double width) const {
    const std::size_t n = size();
    const std::vector<std::vector<double>> columns = derivatives(at, r, width);
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
                                                             const std::vector<double>& r, double width) const {
    std::vector<std::vector<double>> columns;
    for (std::size_t j = 0; j < size(); ++j) {
      std::vector<double> moved = at;
      const double step = moved[j] + width <= 1.0 ? width : -width;
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

/// A point in units of the ranges, its residuals and its cost.
struct Point {
  std::vector<double> at;
  std::vector<double> residuals;
  double cost = 0.0;
};

Point point(const Problem& problem, std::vector<double> at) {
  std::vector<double> r = problem.residuals(at);
  const double cost = problem.cost(r, at);
  return {std::move(at), std::move(r), cost};
}

/// Levenberg-Marquardt from `from`, with differences over `width`.
Point descend(const Problem& problem, Point from, double width, int max_iterations) {
  double damping = 1e-2;
  double gain = 1.0;
  for (int i = 0; i < max_iterations && gain >= 5e-4; ++i) {
    const Problem::Normal normal = problem.normal(from.at, from.residuals, width);
    gain = 0.0;
    for (int attempt = 0; attempt < 8; ++attempt, damping *= 4.0) {
      std::vector<double> next = damped_step(normal, from.at, damping);
      if (next.empty()) continue;
      Point there = point(problem, std::move(next));
      if (!(there.cost < from.cost)) continue;
      gain = (from.cost - there.cost) / from.cost;
      from = std::move(there);
      damping = std::max(1e-6, damping * 0.3);
      break;
    }
  }
  return from;
}

}  // namespace

double robust_cost(const std::vector<double>& residuals, double scale) {
  double cost = 0.0;
  for (const double x : residuals) cost += std::isfinite(x) ? soft_l1(x, scale) : 0.0;
  return cost;
}

FitResult fit_least_squares(const std::vector<FitParameter>& parameters,
                            const std::function<std::vector<double>(const std::vector<double>&)>& residuals,
                            const FitEffort& effort) {
  // Runs with queues are not smooth: a wide difference looks past their noise, a narrow one finds what it stepped over.
  constexpr double kWidths[] = {0.03, 0.003};
  constexpr double kSpread = 0.3;  // of the range, to either side: where other starts lie
  const Problem problem(parameters, residuals, effort.scale);
  const auto descended = [&](Point at) {
    for (const double width : kWidths) at = descend(problem, std::move(at), width, effort.iterations);
    return at;
  };
  FitResult result;
  Point best = point(problem, problem.start());
  result.cost_before = best.cost;
  best = descended(std::move(best));
  RandomStream random(1, "starts of a fit");
  for (int i = 0; i < effort.other_starts; ++i) {
    std::vector<double> from = best.at;
    for (double& x : from) x = std::clamp(x + kSpread * (2.0 * random.uniform() - 1.0), 0.0, 1.0);
    Point found = descended(point(problem, std::move(from)));
    if (found.cost < best.cost) best = std::move(found);
  }
  result.values = problem.values(best.at);
  result.cost = best.cost;
  return result;
}

}  // namespace wattle::fidelity
