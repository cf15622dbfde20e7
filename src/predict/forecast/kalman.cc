#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "predict/forecast/forecaster.h"
#include "predict/forecast/season.h"

namespace wattle::predict {

namespace {
/// Variances relative to that of the measurement.
struct Noise {
  double level = 0.1;
  double trend = 0.0;
};

/// Level and trend with their covariance, in units of the measurement's variance.
struct State {
  double level = 0.0;
  double trend = 0.0;
  double ll = 0.0, lt = 0.0, tt = 0.0;
  bool started = false;
};

constexpr double kDiffuse = 1e4;

/// One step ahead in time; then the measurement, unless it is NaN. Returns (innovation, its variance), (0, 0) without.
std::array<double, 2> advance(State& s, double y, const Noise& q, double damping) {
  if (!s.started) {
    if (std::isnan(y)) return {0.0, 0.0};
    s = {y, 0.0, 1.0, 0.0, kDiffuse * q.trend, true};
    return {0.0, 0.0};
  }
  s.level += damping * s.trend;
  s.trend *= damping;
  const double ll = s.ll + 2.0 * damping * s.lt + damping * damping * s.tt + q.level;
  const double lt = damping * s.lt + damping * damping * s.tt;
  const double tt = damping * damping * s.tt + q.trend;
  if (std::isnan(y)) {
    s.ll = ll, s.lt = lt, s.tt = tt;
    return {0.0, 0.0};
  }
  const double variance = ll + 1.0;
  const double innovation = y - s.level;
  const double gain_level = ll / variance;
  const double gain_trend = lt / variance;
  s.level += gain_level * innovation;
  s.trend += gain_trend * innovation;
  s.ll = (1.0 - gain_level) * ll;
  s.lt = (1.0 - gain_level) * lt;
  s.tt = tt - gain_trend * lt;
  return {innovation, variance};
}

/// -2 log likelihood with the measurement's variance at its own optimum, but for a constant.
double misfit(std::span<const double> values, const Noise& q, double damping) {
  State state;
  double logs = 0.0;
  double squares = 0.0;
  double seen = 0.0;
  for (const double y : values) {
    const auto [innovation, variance] = advance(state, y, q, damping);
    if (variance <= 0.0) continue;
    logs += std::log(variance);
    squares += innovation * innovation / variance;
    seen += 1.0;
  }
  if (seen == 0.0) return 0.0;
  return logs + seen * std::log(std::max(squares / seen, 1e-300));
}

Noise most_likely(std::span<const double> values, double damping) {
  constexpr std::array kLevels = {1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0};
  constexpr std::array kTrends = {0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0};
  Noise best;
  double least = std::numeric_limits<double>::infinity();
  for (const double level : kLevels) {
    for (const double trend : kTrends) {
      const Noise here{level, trend};
      if (const double m = misfit(values, here, damping); m < least) least = m, best = here;
    }
  }
  return best;
}

class Kalman final : public Forecaster {
 public:
  explicit Kalman(const KalmanOptions& options) : options_(options) {}
  const char* name() const override { return "kalman"; }
  /// After so many steps the state has forgotten where it began, except for the slowest levels of the grid.
  std::size_t context() const override { return 288; }

  Result<void> fit(const Panel& past) override {
    const std::size_t needed = std::max<std::size_t>(options_.period, 8);
    if (past.steps() < needed) {
      return bad_input("past", fmt::format("has {} steps; the filter needs {}", past.steps(), needed));
    }
    learned_.clear();
    for (const auto& one : past.series) {
      Learned learned;
      std::vector<double> values = in(one);
      if (options_.period > 0) {
        learned.season = typical_season(values, past.first_step, options_.period, options_.smoothing, 0.5);
        take_off(learned, values, past.first_step);
      }
      learned.noise = most_likely(values, options_.damping);
      learned_.push_back(std::move(learned));
    }
    return {};
  }

  Rows forecast(const Panel& recent, std::size_t horizon) const override {
    Rows out;
    for (std::size_t s = 0; s < recent.series.size(); ++s) {
      auto& row = out.emplace_back(horizon, kUnknown);
      if (s >= learned_.size()) continue;
      const Learned& learned = learned_[s];
      std::vector<double> values = in(recent.series[s]);
      if (options_.period > 0) take_off(learned, values, recent.first_step);
      State state;
      for (const double y : values) advance(state, y, learned.noise, options_.damping);
      if (!state.started) continue;
      for (std::size_t h = 0; h < horizon; ++h) {
        state.trend *= options_.damping;
        state.level += state.trend;
        const auto step = recent.next_step() + static_cast<std::int64_t>(h);
        const double season = options_.period > 0 ? learned.season[phase_of(step, options_.period)] : 0.0;
        const double y = state.level + season;
        row[h] = options_.log1p ? std::expm1(std::clamp(y, 0.0, 40.0)) : y;
      }
    }
    return out;
  }

 private:
  struct Learned {
    std::vector<double> season;
    Noise noise;
  };
  [[nodiscard]] std::vector<double> in(std::span<const double> values) const {
    std::vector<double> out(values.begin(), values.end());
    if (options_.log1p) {
      for (double& v : out) v = std::log1p(std::max(v, 0.0));
    }
    return out;
  }
  void take_off(const Learned& learned, std::vector<double>& values, std::int64_t first_step) const {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] -= learned.season[phase_of(first_step + static_cast<std::int64_t>(i), options_.period)];
    }
  }

  KalmanOptions options_;
  std::vector<Learned> learned_;
};
}  // namespace

std::unique_ptr<Forecaster> make_kalman(const KalmanOptions& options) { return std::make_unique<Kalman>(options); }

}  // namespace wattle::predict
