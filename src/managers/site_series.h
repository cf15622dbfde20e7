#pragma once
// How something of each site's electricity goes on: its intensity, its price.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "predict/forecast/forecaster.h"
#include "units/time.h"

namespace wattle::managers {

/// The steps ahead: the forecaster's where it has learned enough, of `least` steps at least, else the last known value
/// of each series.
[[nodiscard]] predict::Rows carried_on(predict::Forecaster* forecaster, const std::vector<std::vector<double>>& past,
                                       std::size_t horizon, std::size_t least);

class SiteSeries {
 public:
  /// What it is at a site at that time; none: unknown.
  using Known = std::function<std::optional<double>(std::size_t site, Instant at)>;
  struct Options {
    std::size_t sites = 0;
    Span slot;
    std::size_t past_slots = 0;     ///< known before the run began, to forecast from
    std::size_t least_history = 0;  ///< slots; with fewer the last ones are carried on
    bool given = false;             ///< what is known of times to come is taken for what will be
  };
  /// `known` may be empty: nothing ever is. `forecaster`: of each site's value per slot; null: the last is carried on.
  SiteSeries(Known known, std::unique_ptr<predict::Forecaster> forecaster, const Options& options);

  void begin(Instant now);    ///< once: what was known before
  void end_slot(Instant at);  ///< at the end of each slot
  /// By site, for so many slots from `now` on. None: it is not known everywhere, and what is not known now is not known
  /// for the slots to come, whatever was known before.
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
