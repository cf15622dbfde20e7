#pragma once
// Converts arrivals to the rates that planners use (FREESH, section IV: 5 s bins, the peak of every 5 minutes, half an
// hour at a time).
#include <cstddef>
#include <span>
#include <vector>

#include "units/time.h"

namespace wattle::predict {

/// Requests per second in the busiest of every `per_peak` bins. NaN if none of them is known; a last, incomplete group
/// is left out.
[[nodiscard]] std::vector<double> peak_rates(std::span<const double> bins, Span width, std::size_t per_peak);

}  // namespace wattle::predict
