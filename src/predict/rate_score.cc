#include "predict/rate_score.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace wattle::predict {

RateScore score_rate(const LatencyModel& model, std::span<const StepSample> samples) {
  RateScore score;
  double sum = 0.0;
  double squares = 0.0;
  double residual = 0.0;
  for (const auto& s : samples) {
    if (s.duration <= Span()) continue;
    ++score.samples;
    const double truth = 1.0 / s.duration.seconds();
    const Span predicted = model.step_time(s.shape, s.clock);
    const double error = (predicted > Span() ? 1.0 / predicted.seconds() : 0.0) - truth;
    sum += truth;
    squares += truth * truth;
    residual += error * error;
    score.mape += std::abs(error) / truth;
    score.mae += std::abs(error);
  }
  if (score.samples == 0) return score;
  const auto n = static_cast<double>(score.samples);
  const double total = squares - sum * sum / n;
  score.r2 = total > 0.0 ? 1.0 - residual / total : 1.0;
  score.mape /= n;
  score.mae /= n;
  return score;
}

std::pair<std::vector<StepSample>, std::vector<StepSample>> split_samples(std::span<const StepSample> samples,
                                                                          double share, std::uint64_t seed) {
  std::vector<StepSample> drawn(samples.begin(), samples.end());
  RandomStream random(seed, "predict.split");
  for (std::size_t i = drawn.size(); i > 1; --i) std::swap(drawn[i - 1], drawn[random.below(i)]);
  const double wanted = std::round(std::clamp(share, 0.0, 1.0) * static_cast<double>(drawn.size()));
  const auto border = drawn.begin() + static_cast<std::ptrdiff_t>(wanted);
  std::vector<StepSample> rest(border, drawn.end());
  drawn.erase(border, drawn.end());
  return {std::move(drawn), std::move(rest)};
}

}  // namespace wattle::predict
