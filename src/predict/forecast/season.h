#pragma once
// A typical season, learned separately for each position.
#include <cstddef>
#include <span>
#include <vector>

#include "predict/forecast/panel.h"

namespace wattle::predict {

/// The quantile of the values at each position of a season of `period` steps, including `smoothing` neighbours on each
/// side. Positions without values take the overall quantile; NaN if no value is known.
[[nodiscard]] std::vector<double> typical_season(std::span<const double> values, std::int64_t first_step,
                                                 std::size_t period, std::size_t smoothing, double quantile);

/// Nearest-rank quantile; reorders `values`, which must be non-empty and without NaN.
[[nodiscard]] double quantile_of(std::vector<double>& values, double quantile);

}  // namespace wattle::predict
