#pragma once
// Forecasts of a quantity of each site's electricity: its carbon intensity or its price.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "predict/forecast/forecaster.h"
#include "units/time.h"

namespace wattle::managers {

/// Forecast of the next `horizon` steps, by series: the forecaster's if it has learned enough (at least `least` steps),
/// otherwise each series' last known value.
[[nodiscard]] predict::Rows carried_on(predict::Forecaster* forecaster, const std::vector<std::vector<double>>& past,
                                       std::size_t horizon, std::size_t least);

class SiteSeries {
 public:
  /// The value at a site and time; none: unknown.
  using Known = std::function<std::optional<double>(std::size_t site, Instant at)>;
  struct Options {
    std::size_t sites = 0;
    Span slot;
    std::size_t past_slots = 0;     ///< known before the run began, to forecast from
    std::size_t least_history = 0;  ///< slots; with fewer, the last value is used as the forecast
    bool given = false;             ///< known future values are used as the forecast
  };
  /// `known` may be empty: nothing is known. `forecaster`: of each site's value per slot; null: the last value is used.
  SiteSeries(Known known, std::unique_ptr<predict::Forecaster> forecaster, const Options& options);

  void begin(Instant now);    ///< once: loads the past
  void end_slot(Instant at);  ///< at the end of each slot
  /// By site, for `slots` slots from `now` on. None if any site's present value is unknown, whatever was known before.
  [[nodiscard]] std::optional<predict::Rows> ahead(std::size_t slots, Instant now) const;

 private:
  [[nodiscard]] std::optional<double> known(std::size_t site, Instant at) const {
    return known_ ? known_(site, at) : std::nullopt;
  }

  Known known_;
  std::unique_ptr<predict::Forecaster> forecaster_;
  Options options_;
  std::vector<std::vector<double>> past_;  ///< by site and slot; NaN: unknown
};

}  // namespace wattle::managers
