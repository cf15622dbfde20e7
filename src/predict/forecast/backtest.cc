#include "predict/forecast/backtest.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "predict/pinball.h"

namespace wattle::predict {

namespace {
struct Sums {
  double absolute = 0.0;
  double relative = 0.0;
  double relative_points = 0.0;
  double pinball_50 = 0.0;
  double pinball_90 = 0.0;
  double squared = 0.0;
  double covered = 0.0;
  double points = 0.0;
  std::vector<double> by_lead;
  std::vector<double> lead_points;
  std::vector<std::vector<double>> truths;  ///< by series
};

void add(Sums& sums, std::size_t series, std::size_t lead, double truth, double point, double median, double high) {
  const double error = std::abs(truth - point);
  sums.absolute += error;
  sums.squared += error * error;
  if (std::abs(truth) > 1e-9) {
    sums.relative += error / std::abs(truth);
    sums.relative_points += 1.0;
  }
  sums.pinball_50 += pinball(truth, median, 0.5);
  sums.pinball_90 += pinball(truth, high, 0.9);
  sums.covered += truth <= high ? 1.0 : 0.0;
  sums.points += 1.0;
  sums.by_lead[lead] += error;
  sums.lead_points[lead] += 1.0;
  sums.truths[series].push_back(truth);
}

double spread(const std::vector<std::vector<double>>& truths) {
  double sum = 0.0;
  for (const auto& one : truths) {
    double mean = 0.0;
    for (const double v : one) mean += v / static_cast<double>(one.size());
    for (const double v : one) sum += (v - mean) * (v - mean);
  }
  return sum;
}
}  // namespace

Result<ForecastScore> backtest(const QuantileForecaster& forecaster, const Panel& all, const BacktestOptions& options) {
  Sums sums;
  sums.by_lead.assign(options.horizon, 0.0);
  sums.lead_points.assign(options.horizon, 0.0);
  sums.truths.resize(all.series.size());
  std::size_t origins = 0;
  for (std::size_t end = options.train; end + options.horizon <= all.steps();
       end += std::max<std::size_t>(options.stride, 1)) {
    if (options.origins > 0 && origins == options.origins) break;
    ++origins;
    const Panel recent = all.window(0, end).last(forecaster.forecaster().context());
    const Rows point = forecaster.point(recent, options.horizon);
    for (std::size_t s = 0; s < all.series.size(); ++s) {
      for (std::size_t h = 0; h < options.horizon; ++h) {
        const double truth = all.series[s][end + h];
        if (std::isnan(truth) || std::isnan(point[s][h])) continue;
        add(sums, s, h, truth, point[s][h], point[s][h] + forecaster.margin(s, h, 0.5),
            point[s][h] + forecaster.margin(s, h, 0.9));
      }
    }
  }
  if (sums.points == 0.0) {
    return bad_input("backtest", fmt::format("{} steps after {} to learn from hold no forecast of {}", all.steps(),
                                             options.train, options.horizon));
  }
  ForecastScore score;
  score.points = static_cast<std::int64_t>(sums.points);
  score.mae = sums.absolute / sums.points;
  score.mape = sums.relative_points > 0.0 ? sums.relative / sums.relative_points : 0.0;
  score.pinball_50 = sums.pinball_50 / sums.points;
  score.pinball_90 = sums.pinball_90 / sums.points;
  score.coverage_90 = sums.covered / sums.points;
  const double total = spread(sums.truths);
  score.r2 = total > 0.0 ? 1.0 - sums.squared / total : 0.0;
  for (std::size_t h = 0; h < options.horizon; ++h) {
    score.mae_by_lead.push_back(sums.lead_points[h] > 0.0 ? sums.by_lead[h] / sums.lead_points[h] : kUnknown);
  }
  return score;
}

}  // namespace wattle::predict
