#include "predict/least_squares.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace wattle::predict {

namespace {

constexpr double kTukey = 4.685;  ///< robust standard deviations beyond which a sample counts nothing
constexpr double kMadToSigma = 1.4826;
constexpr double kExact = 1e-7;  ///< of the mean: below, a fit no longer moves and noise is rounding
constexpr int kMaxRounds = 40;

}  // namespace

void Moments::add(const Row& row, double weight) {
  for (std::size_t i = 0; i < kMaxFeatures; ++i) {
    for (std::size_t j = 0; j < kMaxFeatures; ++j) xx_[i][j] += weight * row.x[i] * row.x[j];
    xy_[i] += weight * row.x[i] * row.y;
  }
  yy_ += weight * row.y * row.y;
}

Moments Moments::plus(const Moments& o, double sign) const {
  Moments d = *this;
  for (std::size_t i = 0; i < kMaxFeatures; ++i) {
    for (std::size_t j = 0; j < kMaxFeatures; ++j) d.xx_[i][j] += sign * o.xx_[i][j];
    d.xy_[i] += sign * o.xy_[i];
  }
  d.yy_ += sign * o.yy_;
  return d;
}

Moments::Solution Moments::solve_non_negative() const {
  // Features differ by orders of magnitude (1 against KV tokens): solve in units of each one's root mean square.
  std::array<double, kMaxFeatures> scale{};
  for (std::size_t i = 0; i < kMaxFeatures; ++i) scale[i] = xx_[i][i] > 0.0 ? 1.0 / std::sqrt(xx_[i][i]) : 0.0;

  Solution best{{}, std::max(0.0, yy_)};
  for (unsigned support = 1; support < (1U << kMaxFeatures); ++support) {
    std::array<std::size_t, kMaxFeatures> index{};
    std::size_t n = 0;
    bool usable = true;
    for (std::size_t i = 0; i < kMaxFeatures; ++i) {
      if ((support >> i & 1U) == 0) continue;
      usable = usable && scale[i] > 0.0;
      index[n++] = i;
    }
    if (!usable) continue;

    std::array<std::array<double, kMaxFeatures + 1>, kMaxFeatures> m{};
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t c = 0; c < n; ++c) m[r][c] = xx_[index[r]][index[c]] * scale[index[r]] * scale[index[c]];
      m[r][n] = xy_[index[r]] * scale[index[r]];
    }
    for (std::size_t p = 0; p < n && usable; ++p) {  // positive definite or singular: no pivoting needed
      usable = m[p][p] > 1e-11;
      for (std::size_t r = p + 1; r < n && usable; ++r) {
        const double factor = m[r][p] / m[p][p];
        for (std::size_t c = p; c <= n; ++c) m[r][c] -= factor * m[p][c];
      }
    }
    if (!usable) continue;
    std::array<double, kMaxFeatures> z{};
    for (std::size_t r = n; r-- > 0 && usable;) {
      double v = m[r][n];
      for (std::size_t c = r + 1; c < n; ++c) v -= m[r][c] * z[c];
      z[r] = v / m[r][r];
      usable = z[r] >= 0.0;
    }
    if (!usable) continue;
    double explained = 0.0;
    Coefficients coefficients{};
    for (std::size_t r = 0; r < n; ++r) {
      explained += z[r] * xy_[index[r]] * scale[index[r]];
      coefficients[index[r]] = z[r] * scale[index[r]];
    }
    const double residual = std::max(0.0, yy_ - explained);
    if (residual < best.residual) best = {coefficients, residual};
  }
  return best;
}

Coefficients fit_robust(std::span<const Row> rows) {
  if (rows.empty()) return {};
  double mean = 0.0;
  for (const Row& row : rows) mean += std::abs(row.y) / static_cast<double>(rows.size());
  std::vector<double> weights(rows.size(), 1.0);
  std::vector<double> errors(rows.size());
  std::vector<double> sorted(rows.size());

  Coefficients coefficients{};
  const auto reweigh = [&](int rounds, auto&& weight_of) {
    for (int round = 0; round < rounds; ++round) {
      Moments moments;
      for (std::size_t i = 0; i < rows.size(); ++i) moments.add(rows[i], weights[i]);
      const Coefficients next = moments.solve_non_negative().coefficients;
      double moved = 0.0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const double predicted = predict_row(next, rows[i]);
        moved = std::max(moved, std::abs(predicted - predict_row(coefficients, rows[i])));
        errors[i] = std::abs(predicted - rows[i].y);
      }
      coefficients = next;
      sorted = errors;
      const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
      std::ranges::nth_element(sorted, middle);
      const double sigma = std::max(kMadToSigma * *middle, kExact * mean);
      for (std::size_t i = 0; i < rows.size(); ++i) weights[i] = weight_of(errors[i], sigma);
      if (moved <= kExact * mean) return;
    }
  };
  reweigh(kMaxRounds, [](double error, double sigma) { return sigma / std::max(error, 0.01 * sigma); });
  reweigh(kMaxRounds, [](double error, double sigma) {
    const double u = error / (kTukey * sigma);
    return u < 1.0 ? (1.0 - u * u) * (1.0 - u * u) : 0.0;
  });
  return coefficients;
}

}  // namespace wattle::predict
