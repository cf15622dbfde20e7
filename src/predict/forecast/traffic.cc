#include "predict/forecast/traffic.h"

#include <cmath>

#include "predict/forecast/panel.h"

namespace wattle::predict {

std::vector<double> peak_rates(std::span<const double> bins, Span width, std::size_t per_peak) {
  std::vector<double> out;
  for (std::size_t begin = 0; begin + per_peak <= bins.size(); begin += per_peak) {
    double peak = kUnknown;
    for (const double v : bins.subspan(begin, per_peak)) peak = std::fmax(peak, v);  // fmax passes over NaN
    out.push_back(peak / width.seconds());
  }
  return out;
}

}  // namespace wattle::predict
