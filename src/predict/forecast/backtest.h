#pragma once
// Evaluates a forecaster on held-out data.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "predict/forecast/margins.h"

namespace wattle::predict {

/// Over all series, origins and leads.
struct ForecastScore {
  std::int64_t points = 0;
  double mae = 0.0;
  double mape = 0.0;        ///< relative, over points whose true value is not 0
  double pinball_50 = 0.0;  ///< of the median: the point plus its margin
  double pinball_90 = 0.0;
  double r2 = 0.0;           ///< 1 - squared errors over squared distances from each series' own mean
  double coverage_90 = 0.0;  ///< share of truths at or below the 90 % quantile
  std::vector<double> mae_by_lead;
};

struct BacktestOptions {
  std::size_t train = 0;  ///< number of training steps at the start; the rest is held out
  std::size_t horizon = 1;
  std::size_t stride = 1;   ///< steps between forecasts
  std::size_t origins = 0;  ///< maximum number of forecasts; 0: as many as fit
};

/// Forecasts from every origin in the held-out part, with everything before it as recent past; nothing is learned
/// there. Errors: no origin fits.
[[nodiscard]] Result<ForecastScore> backtest(const QuantileForecaster& forecaster, const Panel& all,
                                             const BacktestOptions& options);

}  // namespace wattle::predict
