#pragma once
// What a forecaster sees: numbers at equal steps, of one series or of several over the same steps.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace wattle::predict {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Borrowed values; all series have the same length. NaN: unknown.
struct Panel {
  std::vector<std::span<const double>> series;  ///< sites, request types, ...
  std::int64_t first_step = 0;  ///< place of the first value on a grid whose 0 begins a season (a Monday, 00:00 UTC)

  [[nodiscard]] std::size_t steps() const { return series.empty() ? 0 : series.front().size(); }
  /// Place of the step after the last one.
  [[nodiscard]] std::int64_t next_step() const { return first_step + static_cast<std::int64_t>(steps()); }
  /// `count` steps from `begin` on; both within steps().
  [[nodiscard]] Panel window(std::size_t begin, std::size_t count) const {
    Panel out{{}, first_step + static_cast<std::int64_t>(begin)};
    for (const auto& one : series) out.series.push_back(one.subspan(begin, count));
    return out;
  }
  /// The last `count` steps, or all there are.
  [[nodiscard]] Panel last(std::size_t count) const {
    const std::size_t kept = count < steps() ? count : steps();
    return window(steps() - kept, kept);
  }
};

/// Values by series and step.
using Rows = std::vector<std::vector<double>>;

/// Place within a season of `period` steps, in [0, period).
[[nodiscard]] inline std::size_t phase_of(std::int64_t step, std::size_t period) {
  const auto p = static_cast<std::int64_t>(period);
  return static_cast<std::size_t>(((step % p) + p) % p);
}

/// Unknown values take the last known one before them, leading ones the first known; all unknown stays so.
[[nodiscard]] std::vector<double> filled(std::span<const double> values);

}  // namespace wattle::predict
