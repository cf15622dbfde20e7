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

}  // namespace

FitResult fit_least_squares(const std::vector<FitParameter>& parameters,
                            const std::function<std::vector<double>(const std::vector<double>&)>& residuals,
                            double scale, int max_iterations) {
  const std::size_t n = parameters.size();
  // Work in units of each parameter's range.
  std::vector<double> u(n);
  const auto value_of = [&](const std::vector<double>& at) {
    std::vector<double> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = parameters[i].low + at[i] * (parameters[i].high - parameters[i].low);
    return v;
  };
  const auto unit = [&](std::size_t i, double v) {
    return (v - parameters[i].low) / (parameters[i].high - parameters[i].low);
  };
  for (std::size_t i = 0; i < n; ++i) u[i] = std::clamp(unit(i, parameters[i].start), 0.0, 1.0);
  const auto evaluate = [&](const std::vector<double>& at) {
    std::vector<double> r = residuals(value_of(at));
    for (double& x : r) x = std::isfinite(x) ? x : 0.0;
    return r;
  };
  const auto cost_of = [&](const std::vector<double>& r, const std::vector<double>& at) {
    double cost = 0.0;
    for (const double x : r) cost += soft_l1(x, scale);
    for (std::size_t i = 0; i < n; ++i) {
      const double d = at[i] - unit(i, parameters[i].prior);
      cost += parameters[i].prior_weight * d * d;
    }
    return cost;
  };
  FitResult result;
  std::vector<double> r = evaluate(u);
  double cost = cost_of(r, u);
  result.cost_before = cost;
  double damping = 1e-2;
  for (int iteration = 0; iteration < max_iterations; ++iteration) {
    result.iterations = iteration + 1;
    constexpr double kStep = 0.03;  // runs with queues are not smooth: a wide step looks past their noise
    std::vector<std::vector<double>> columns(n);
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<double> moved = u;
      const double step = moved[j] + kStep <= 1.0 ? kStep : -kStep;
      moved[j] += step;
      columns[j] = evaluate(moved);
      for (std::size_t k = 0; k < r.size(); ++k) columns[j][k] = (columns[j][k] - r[k]) / step;
    }
    std::vector<double> weight(r.size());
    for (std::size_t k = 0; k < r.size(); ++k) weight[k] = 1.0 / std::sqrt(1.0 + (r[k] / scale) * (r[k] / scale));
    std::vector<double> normal(n * n, 0.0);
    std::vector<double> gradient(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = 0.0;
        for (std::size_t k = 0; k < r.size(); ++k) sum += weight[k] * columns[i][k] * columns[j][k];
        normal[i * n + j] = normal[j * n + i] = sum;
      }
      for (std::size_t k = 0; k < r.size(); ++k) gradient[i] -= weight[k] * columns[i][k] * r[k];
      const double prior = unit(i, parameters[i].prior);
      normal[i * n + i] += parameters[i].prior_weight;
      gradient[i] += parameters[i].prior_weight * (prior - u[i]);
    }
    bool improved = false;
    for (int attempt = 0; attempt < 8 && !improved; ++attempt) {
      std::vector<double> a = normal;
      std::vector<double> step = gradient;
      for (std::size_t i = 0; i < n; ++i) {
        a[i * n + i] += damping * (normal[i * n + i] + 1e-6);
        // A parameter at its bound that wants to leave the box stays.
        const bool stuck = (u[i] <= 0.0 && gradient[i] < 0.0) || (u[i] >= 1.0 && gradient[i] > 0.0);
        if (stuck) {
          for (std::size_t j = 0; j < n; ++j) a[i * n + j] = a[j * n + i] = 0.0;
          a[i * n + i] = 1.0;
          step[i] = 0.0;
        }
      }
      if (cholesky_solve(a, step)) {
        std::vector<double> next = u;
        for (std::size_t i = 0; i < n; ++i) next[i] = std::clamp(u[i] + step[i], 0.0, 1.0);
        std::vector<double> next_r = evaluate(next);
        const double next_cost = cost_of(next_r, next);
        if (next_cost < cost) {
          improved = true;
          const double gain = (cost - next_cost) / cost;
          u = std::move(next);
          r = std::move(next_r);
          cost = next_cost;
          damping = std::max(1e-6, damping * 0.3);
          if (gain < 5e-4) {
            result.values = value_of(u);
            result.cost = cost;
            return result;
          }
          continue;
        }
      }
      damping *= 4.0;
    }
    if (!improved) break;
  }
  result.values = value_of(u);
  result.cost = cost;
  return result;
}

}  // namespace wattle::fidelity
