#include "fidelity/samples.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace wattle::fidelity {

double mean_of(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double v : values) sum += v;
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(values.size());
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(p * static_cast<double>(values.size()))) - 1;
  const auto at = values.begin() + std::clamp<std::ptrdiff_t>(rank, 0, static_cast<std::ptrdiff_t>(values.size()) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void Gaps::add(std::int64_t first, std::int64_t increment, std::int64_t steps, std::int64_t requests) {
  runs_.push_back({first, increment, steps, requests});
  gaps_ += steps * requests;
}

std::int64_t Gaps::Run::up_to(std::int64_t value) const {
  if (value < first) return 0;
  if (increment == 0) return steps * requests;
  return std::min(steps, (value - first) / increment + 1) * requests;
}

std::int64_t Gaps::percentile(double p) const {
  if (runs_.empty()) return 0;
  const auto rank = std::clamp<std::int64_t>(std::llround(std::ceil(p * static_cast<double>(gaps_))), 1, gaps_);
  std::int64_t low = std::ranges::min_element(runs_, {}, &Run::first)->first;
  std::int64_t high = low;
  for (const Run& run : runs_) high = std::max(high, run.first + run.increment * (run.steps - 1));
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    std::int64_t count = 0;
    for (const Run& run : runs_) count += run.up_to(middle);
    if (count >= rank) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace wattle::fidelity
