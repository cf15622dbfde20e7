#include "predict/host_line.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "predict/least_squares.h"

namespace wattle::predict {

namespace {

constexpr std::size_t kThird = 3;
constexpr std::size_t kFewest = 6;   ///< samples of a batch size, so that two or more clocks or contexts agree
constexpr std::size_t kBatches = 3;  ///< two lie on a line always

constexpr double kRise = 0.1;  ///< of the line at its largest batch, by which prompts make it rise

/// Durations of steps by how many requests they are of.
using ByBatch = std::map<std::int32_t, std::vector<double>>;

HostLine line_through(ByBatch by_batch, double least_rise) {
  std::vector<Row> rows;
  std::vector<Row> shortest;  // the middle of each third
  for (auto& [batch, durations] : by_batch) {
    if (durations.size() < kFewest) continue;
    std::ranges::sort(durations);
    const std::size_t third = durations.size() / kThird;
    shortest.push_back({{static_cast<double>(batch), 1.0, 0.0}, durations[third / 2]});
    if (durations[third - 1] <= durations.front() * (1.0 + kHostBand)) rows.push_back(shortest.back());
  }
  if (rows.size() < kBatches) return {};
  const Coefficients line = fit_robust(rows);
  const bool above =
      std::ranges::any_of(shortest, [&](const Row& row) { return predict_row(line, row) > row.y * (1.0 + kHostBand); });
  const bool rises = line[0] * rows.back().x[0] >= least_rise * predict_row(line, rows.back());
  return above || !rises ? HostLine{} : HostLine{line[0], line[1]};
}

}  // namespace

HostLine find_host_line(std::span<const StepSample> samples) {
  ByBatch by_batch;
  for (const StepSample& s : samples) {
    if (s.shape.decode_requests == 0 || s.shape.prefill_tokens > 0 || s.duration <= Span()) continue;
    by_batch[s.shape.decode_requests].push_back(static_cast<double>(s.duration.ns()));
  }
  return line_through(std::move(by_batch), 0.0);
}

HostLine find_prompt_host_line(std::span<const StepSample> samples) {
  ByBatch by_batch;
  for (const StepSample& s : samples) {
    if (s.shape.decode_requests > 0 || s.shape.prefill_requests == 0 || s.duration <= Span()) continue;
    by_batch[s.shape.prefill_requests].push_back(static_cast<double>(s.duration.ns()));
  }
  return line_through(std::move(by_batch), kRise);
}

}  // namespace wattle::predict
