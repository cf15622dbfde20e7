#pragma once
// One interface for every forecaster: a past to learn from, a recent past to start at, a horizon out.
#include <cstddef>
#include <memory>

#include "base/error.h"
#include "predict/forecast/panel.h"

namespace wattle::predict {

class Forecaster {
 public:
  virtual ~Forecaster() = default;
  [[nodiscard]] virtual const char* name() const = 0;
  /// Learns from scratch each time. Errors: the past is too short, or has another number of series than the forecaster.
  virtual Result<void> fit(const Panel& past) = 0;
  /// The `horizon` steps after `recent`, which has the series of the past fitted and at least context() steps (with
  /// fewer, or nothing known in them, the answer may be NaN). By series and step. `horizon` is at most what the
  /// forecaster was made for.
  [[nodiscard]] virtual Rows forecast(const Panel& recent, std::size_t horizon) const = 0;
  /// How many recent steps a forecast looks at.
  [[nodiscard]] virtual std::size_t context() const = 0;
};

/// The last known value, for ever.
[[nodiscard]] std::unique_ptr<Forecaster> make_persistence();
/// What was at the same place of the last season that had a value there. period > 0.
[[nodiscard]] std::unique_ptr<Forecaster> make_seasonal_naive(std::size_t period);

/// A typical season (DynamoLLM: weekly load template) plus how far the last steps were off it.
struct TemplateOptions {
  std::size_t period = 0;     ///< steps of a season, above 0
  std::size_t smoothing = 0;  ///< neighbours to each side that share a place's median
  std::size_t recent = 12;    ///< steps whose mean error is carried on; 0: none
  double decay = 0.97;        ///< by which that error shrinks with every step ahead
  double quantile = 0.5;      ///< of a place's values
};
[[nodiscard]] std::unique_ptr<Forecaster> make_template(const TemplateOptions& options);

/// Local level and damped trend by a Kalman filter, on what a template leaves over (Harvey 1989, chapter 4). The ratios
/// of the noises are the most likely ones of a grid.
struct KalmanOptions {
  std::size_t period = 0;  ///< of the template taken off first; 0: none
  std::size_t smoothing = 2;
  bool log1p = false;     ///< for counts and rates: errors in proportion
  double damping = 0.95;  ///< of the trend, by step
};
[[nodiscard]] std::unique_ptr<Forecaster> make_kalman(const KalmanOptions& options);

/// A linear model of the change from the last value, for every step ahead: on the changes before it, and on those at
/// the same place of the seasons before.
struct RidgeOptions {
  std::size_t horizon = 24;  ///< the longest
  std::size_t lags = 24;     ///< last values
  std::size_t period = 0;    ///< 0: no season
  std::size_t seasons = 2;   ///< values at the target's place, so many seasons back
  double penalty = 1e-3;     ///< times the features' mean square
};
[[nodiscard]] std::unique_ptr<Forecaster> make_ridge(const RidgeOptions& options);

}  // namespace wattle::predict
