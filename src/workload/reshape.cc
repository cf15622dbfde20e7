#include "workload/reshape.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace wattle::workload {

Result<std::vector<TraceRow>> reshape(std::vector<TraceRow> rows, const WorkloadOptions& options) {
  const double window_s = options.rate_window.seconds();
  const auto windows = rows.empty() ? 0 : rows.back().arrival.ns() / options.rate_window.ns();
  if (windows < 1) {
    return bad_input(
        "workload.peak_rate_per_s",
        fmt::format("the requests last less than one window of {:g} s; shorten workload.rate_window_s", window_s));
  }
  const auto window_of = [&](const TraceRow& row) {
    return static_cast<std::size_t>(std::min(row.arrival.ns() / options.rate_window.ns(), windows - 1));
  };
  std::vector<double> rate(static_cast<std::size_t>(windows), 0.0);
  for (const auto& row : rows) {
    if (row.arrival.ns() / options.rate_window.ns() < windows) rate[window_of(row)] += 1.0 / window_s;
  }
  const auto [lowest, highest] = std::ranges::minmax(rate);
  const double scale = options.peak_rate_per_s / highest;
  const double trough = options.trough_rate_per_s;
  if (trough > lowest * scale * (1.0 + 1e-9)) {
    return bad_input("workload.trough_rate_per_s",
                     fmt::format("{} is above the {:.3g} requests/s of the calmest {} s once the busiest have {}; "
                                 "requests are left out, never added",
                                 trough, lowest * scale, window_s, options.peak_rate_per_s));
  }
  std::vector<double> kept(rate.size(), 1.0);  // share of each window's requests
  for (std::size_t w = 0; w < rate.size() && trough > 0.0; ++w) {
    const double place = highest > lowest ? (rate[w] - lowest) / (highest - lowest) : 1.0;
    kept[w] = (trough + place * (options.peak_rate_per_s - trough)) / (rate[w] * scale);
  }
  std::vector<TraceRow> out;
  double owed = 0.0;
  for (auto& row : rows) {
    owed += std::min(kept[window_of(row)], 1.0);
    if (owed < 1.0 - 1e-9) continue;
    owed -= 1.0;
    row.arrival = Instant(std::llround(static_cast<double>(row.arrival.ns()) / scale));
    out.push_back(row);
  }
  return out;
}

}  // namespace wattle::workload
