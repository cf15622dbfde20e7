#include "predict/forecast/traffic.h"

#include <cmath>

#include "predict/forecast/panel.h"

namespace wattle::predict {

std::vector<double> binned(std::span<const Instant> arrivals, Instant begin, Span width, std::size_t bins) {
  std::vector<double> out(bins, 0.0);
  for (const Instant arrival : arrivals) {
    if (arrival < begin) continue;
    const auto bin = static_cast<std::size_t>((arrival - begin).ns() / width.ns());
    if (bin < bins) out[bin] += 1.0;
  }
  return out;
}

std::vector<double> peak_rates(std::span<const double> bins, Span width, std::size_t per_peak) {
  std::vector<double> out;
  for (std::size_t begin = 0; begin + per_peak <= bins.size(); begin += per_peak) {
    double peak = kUnknown;
    for (const double v : bins.subspan(begin, per_peak)) peak = std::fmax(peak, v);  // fmax passes over NaN
    out.push_back(peak / width.seconds());
  }
  return out;
}

std::vector<double> mean_rates(std::span<const double> bins, Span width, std::size_t per_mean) {
  std::vector<double> out;
  for (std::size_t begin = 0; begin + per_mean <= bins.size(); begin += per_mean) {
    double sum = 0.0;
    double known = 0.0;
    for (const double v : bins.subspan(begin, per_mean)) {
      if (!std::isnan(v)) sum += v, known += 1.0;
    }
    out.push_back(known == 0.0 ? kUnknown : sum / known / width.seconds());
  }
  return out;
}

}  // namespace wattle::predict
