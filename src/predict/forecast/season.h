#pragma once
// A typical season, learned place by place.
#include <cstddef>
#include <span>
#include <vector>

#include "predict/forecast/panel.h"

namespace wattle::predict {

/// The quantile of the values at each place of a season of `period` steps, `smoothing` neighbours to each side
/// included. Places never seen take the season's overall quantile; NaN when nothing is known at all.
[[nodiscard]] std::vector<double> typical_season(std::span<const double> values, std::int64_t first_step,
                                                 std::size_t period, std::size_t smoothing, double quantile);

/// Nearest-rank quantile; reorders `values`, which must hold something and no NaN.
[[nodiscard]] double quantile_of(std::vector<double>& values, double quantile);

}  // namespace wattle::predict
