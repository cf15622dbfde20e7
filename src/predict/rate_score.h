#pragma once
// How well a latency model predicts iterations per second: throttLL'eM's measure of its model M.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/beliefs.h"
#include "predict/step_sample.h"

namespace wattle::predict {

struct RateScore {
  std::int64_t samples = 0;  ///< those with a positive duration
  double r2 = 0.0;           ///< 1 - residual / total variance of iterations/s; 1 when there is no variance to explain
  double mape = 0.0;         ///< mean of |predicted - true| / true
  double mae = 0.0;          ///< mean of |predicted - true|, iterations/s
};

/// Scores 1 / step_time on samples the model has not seen. A prediction that is not positive counts as 0 iterations/s.
[[nodiscard]] RateScore score_rate(const LatencyModel& model, std::span<const StepSample> samples);

/// Draws `share` of the samples without repetition, at random; the rest is second. A function of the seed.
[[nodiscard]] std::pair<std::vector<StepSample>, std::vector<StepSample>> split_samples(
    std::span<const StepSample> samples, double share, std::uint64_t seed);

}  // namespace wattle::predict
