#pragma once
// A trace in a dozen numbers.
#include <cstdint>
#include <span>

#include "workload/options.h"

namespace wattle::workload {

struct LengthSummary {
  double mean = 0.0;
  std::int32_t p50 = 0, p90 = 0, p99 = 0, max = 0;  ///< nearest rank: smallest value with that share at or below it
};

struct TraceSummary {
  std::int64_t rows = 0;
  Span span;                ///< first to last arrival
  double rate_per_s = 0.0;  ///< 1 / mean gap; 0 when the span is
  double arrival_cv = 0.0;  ///< standard deviation of the gaps / their mean; 0 when the span is
  /// Most arrivals per second over the windows [0, 10 s), [10 s, 20 s), ... counted from the first arrival; the
  /// mean rate where the trace is shorter than one.
  double peak_rate_10s_per_s = 0.0;
  LengthSummary prompt;
  LengthSummary output;
};

/// `rows` ascend by arrival.
[[nodiscard]] TraceSummary summarize(std::span<const TraceRow> rows);

}  // namespace wattle::workload
