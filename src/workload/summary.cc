#include "workload/summary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace wattle::workload {

namespace {
constexpr Span kWindow = Span::s(10);

LengthSummary summarize_lengths(std::vector<std::int32_t> values) {
  LengthSummary out;
  if (values.empty()) return out;
  std::ranges::sort(values);
  std::int64_t sum = 0;
  for (const std::int32_t v : values) sum += v;
  const auto n = static_cast<double>(values.size());
  const auto rank = [&](double q) { return values[static_cast<std::size_t>(std::max(std::ceil(q * n) - 1.0, 0.0))]; };
  out.mean = static_cast<double>(sum) / n;
  out.p50 = rank(0.50);
  out.p90 = rank(0.90);
  out.p99 = rank(0.99);
  out.max = values.back();
  return out;
}
}  // namespace

TraceSummary summarize(std::span<const TraceRow> rows) {
  TraceSummary out;
  out.rows = static_cast<std::int64_t>(rows.size());
  if (rows.empty()) return out;
  out.span = rows.back().arrival - rows.front().arrival;

  if (out.span > Span()) {
    const double mean_gap = out.span.seconds() / static_cast<double>(rows.size() - 1);
    double squares = 0.0;  // of the deviations: two passes lose no digits to cancellation
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const double deviation = (rows[i].arrival - rows[i - 1].arrival).seconds() - mean_gap;
      squares += deviation * deviation;
    }
    out.rate_per_s = 1.0 / mean_gap;
    out.arrival_cv = std::sqrt(squares / static_cast<double>(rows.size() - 1)) / mean_gap;
  }

  std::int64_t most = 0;
  std::int64_t window = -1;
  std::int64_t in_window = 0;
  for (const TraceRow& row : rows) {
    const std::int64_t here = (row.arrival - rows.front().arrival).ns() / kWindow.ns();
    in_window = here == window ? in_window + 1 : 1;
    window = here;
    most = std::max(most, in_window);
  }
  // A shorter trace has no whole window.
  out.peak_rate_10s_per_s = out.span >= kWindow ? static_cast<double>(most) / kWindow.seconds() : out.rate_per_s;

  std::vector<std::int32_t> lengths(rows.size());
  std::ranges::transform(rows, lengths.begin(), &TraceRow::prompt_tokens);
  out.prompt = summarize_lengths(lengths);
  std::ranges::transform(rows, lengths.begin(), &TraceRow::output_tokens);
  out.output = summarize_lengths(std::move(lengths));
  return out;
}

}  // namespace wattle::workload
