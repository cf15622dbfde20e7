#pragma once
// The interface of all forecasters: a past to learn from, a recent past to start from, and a horizon.
#include <cstddef>
#include <memory>

#include "base/error.h"
#include "predict/forecast/panel.h"

namespace wattle::predict {

class Forecaster {
 public:
  virtual ~Forecaster() = default;
  [[nodiscard]] virtual const char* name() const = 0;
  /// Starts over with each call. Errors: the past is too short, or has a different number of series than the forecaster
  /// expects.
  virtual Result<void> fit(const Panel& past) = 0;
  /// Forecasts the `horizon` steps after `recent`, by series and step. `recent` has the same series as the past and at
  /// least context() steps; with fewer, or only unknown values, the result may be NaN. `horizon` is at most the one
  /// that the forecaster was created for.
  [[nodiscard]] virtual Rows forecast(const Panel& recent, std::size_t horizon) const = 0;
  /// Number of recent steps that a forecast uses.
  [[nodiscard]] virtual std::size_t context() const = 0;
};

/// Repeats the last known value.
[[nodiscard]] std::unique_ptr<Forecaster> make_persistence();
/// The most recent known value at the same position of an earlier season. period > 0.
[[nodiscard]] std::unique_ptr<Forecaster> make_seasonal_naive(std::size_t period);

/// A typical season (DynamoLLM: weekly load template) plus the recent deviation from it.
struct TemplateOptions {
  std::size_t period = 0;     ///< steps of a season, above 0
  std::size_t smoothing = 0;  ///< number of neighbours on each side included in a position's quantile
  std::size_t recent = 12;    ///< number of steps whose mean error is carried forward; 0: none
  double decay = 0.97;        ///< factor on that error per step ahead
  double quantile = 0.5;      ///< of a position's values
};
[[nodiscard]] std::unique_ptr<Forecaster> make_template(const TemplateOptions& options);

/// Local level and damped trend by a Kalman filter on the residuals of a template (Harvey 1989, chapter 4). The ratios
/// of the noises are chosen from a grid by maximum likelihood.
struct KalmanOptions {
  std::size_t period = 0;  ///< of the template that is subtracted first; 0: none
  std::size_t smoothing = 2;
  bool log1p = false;     ///< for counts and rates: relative errors
  double damping = 0.95;  ///< of the trend, per step
};
[[nodiscard]] std::unique_ptr<Forecaster> make_kalman(const KalmanOptions& options);

/// For every step ahead, a linear model of the change from the last value, on the preceding changes and on those at the
/// same position of earlier seasons.
struct RidgeOptions {
  std::size_t horizon = 24;  ///< longest horizon
  std::size_t lags = 24;     ///< number of last values
  std::size_t period = 0;    ///< 0: no season
  std::size_t seasons = 2;   ///< number of earlier seasons of which the value at the target's position is used
  double penalty = 1e-3;     ///< relative to the features' mean square
};
[[nodiscard]] std::unique_ptr<Forecaster> make_ridge(const RidgeOptions& options);

}  // namespace wattle::predict
