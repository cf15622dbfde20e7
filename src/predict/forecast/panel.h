#pragma once
// Input of a forecaster: values at equal time steps, of one or several series over the same steps.
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
  std::int64_t first_step = 0;  ///< index of the first value on a grid whose 0 starts a season (a Monday, 00:00 UTC)

  [[nodiscard]] std::size_t steps() const { return series.empty() ? 0 : series.front().size(); }
  /// Index of the step after the last one.
  [[nodiscard]] std::int64_t next_step() const { return first_step + static_cast<std::int64_t>(steps()); }
  /// `count` steps from `begin`, both within steps().
  [[nodiscard]] Panel window(std::size_t begin, std::size_t count) const {
    Panel out{{}, first_step + static_cast<std::int64_t>(begin)};
    for (const auto& one : series) out.series.push_back(one.subspan(begin, count));
    return out;
  }
  /// The last `count` steps, or all if there are fewer.
  [[nodiscard]] Panel last(std::size_t count) const {
    const std::size_t kept = count < steps() ? count : steps();
    return window(steps() - kept, kept);
  }
};

/// Values by series and step.
using Rows = std::vector<std::vector<double>>;

/// Position within a season of `period` steps, in [0, period).
[[nodiscard]] inline std::size_t phase_of(std::int64_t step, std::size_t period) {
  const auto p = static_cast<std::int64_t>(period);
  return static_cast<std::size_t>(((step % p) + p) % p);
}

/// Replaces unknown values by the last known one before them, leading ones by the first known; if all are unknown they
/// stay so.
[[nodiscard]] std::vector<double> filled(std::span<const double> values);

}  // namespace wattle::predict
