#pragma once
// Quantiles for any forecaster, from its own errors on data it had not learned from, by steps ahead.
#include <cstddef>
#include <memory>

#include "base/error.h"
#include "predict/forecast/forecaster.h"

namespace wattle::predict {

struct MarginOptions {
  std::size_t horizon = 1;
  std::size_t stride = 1;   ///< steps between origins
  double held_back = 0.25;  ///< share of the past, at its end, used to measure errors
  std::size_t least = 10;   ///< minimum number of origins
};

/// Split conformal margins (Papadopoulos 2008) with a refit: learns on the first part of the past, measures errors on
/// the rest, then learns again on all of it.
class QuantileForecaster {
 public:
  /// Errors: the forecaster's own; too few origins.
  [[nodiscard]] static Result<QuantileForecaster> fit(std::unique_ptr<Forecaster> forecaster, const Panel& past,
                                                      const MarginOptions& options);

  /// Values that are at least the truth in a share `level` in (0, 1) of cases. By series and step.
  [[nodiscard]] Rows forecast(const Panel& recent, std::size_t horizon, double level) const;
  [[nodiscard]] Rows point(const Panel& recent, std::size_t horizon) const {
    return forecaster_->forecast(recent, horizon);
  }
  /// Added to the point forecast `step` steps ahead (0: the next); beyond the horizon as at its end.
  [[nodiscard]] double margin(std::size_t series, std::size_t step, double level) const;
  [[nodiscard]] const Forecaster& forecaster() const { return *forecaster_; }

 private:
  QuantileForecaster(std::unique_ptr<Forecaster> forecaster, std::vector<Rows> errors)
      : forecaster_(std::move(forecaster)), errors_(std::move(errors)) {}

  std::unique_ptr<Forecaster> forecaster_;
  std::vector<Rows> errors_;  ///< by series and lead, ascending
};

}  // namespace wattle::predict
