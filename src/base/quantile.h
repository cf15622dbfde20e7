#pragma once
// One rule for quantiles of a few values at hand; base/histogram.h is for many.
#include <algorithm>
#include <cstddef>
#include <vector>

namespace wattle {

/// Between the two nearest ranks on a straight line. `share` from 0 to 1; 0 of no values.
[[nodiscard]] inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace wattle
