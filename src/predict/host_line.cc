#include "predict/host_line.h"

#include <algorithm>
#include <map>
#include <vector>

#include "predict/least_squares.h"

namespace wattle::predict {

namespace {

constexpr std::size_t kThird = 3;
constexpr std::size_t kFewest = 6;   ///< samples of a batch size, so that two or more clocks or contexts agree
constexpr std::size_t kBatches = 3;  ///< two lie on a line always

constexpr double kRise = 0.1;  ///< of the line at its largest batch, by which prompts make it rise

/// requests_of(shape): by what the host's line rises; 0: no such step.
template <typename RequestsOf>
HostLine line_through(std::span<const StepSample> samples, RequestsOf requests_of, double least_rise) {
  std::map<std::int32_t, std::vector<double>> by_batch;
  for (const StepSample& s : samples) {
    const std::int32_t requests = requests_of(s.shape);
    if (requests > 0 && s.duration > Span()) by_batch[requests].push_back(static_cast<double>(s.duration.ns()));
  }
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
  const auto decodes = [](const StepShape& shape) { return shape.prefill_tokens > 0 ? 0 : shape.decode_requests; };
  return line_through(samples, decodes, 0.0);
}

HostLine find_prompt_host_line(std::span<const StepSample> samples) {
  const auto prompts = [](const StepShape& shape) { return shape.decode_requests > 0 ? 0 : shape.prefill_requests; };
  return line_through(samples, prompts, kRise);
}

}  // namespace wattle::predict
