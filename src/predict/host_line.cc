#include "predict/host_line.h"

#include <algorithm>
#include <map>
#include <vector>

#include "predict/least_squares.h"

namespace wattle::predict {

namespace {

constexpr std::ptrdiff_t kFewest = 4;  ///< steps of a batch size that take as long
constexpr std::size_t kBatches = 3;    ///< two lie on a line always

constexpr double kRise = 0.1;  ///< of the line at its largest batch, by which prompts make it rise

/// Whether these take as long although neither their clocks nor the tokens that they read or compute are the same.
bool whatever_the_gpu_does(std::span<const StepSample* const> alike) {
  const StepSample& one = *alike.front();
  const auto differ = [&](auto of) {
    return std::ranges::any_of(alike, [&](const StepSample* s) { return of(*s) != of(one); });
  };
  return std::ssize(alike) >= kFewest && differ([](const StepSample& s) { return s.clock; }) &&
         differ([](const StepSample& s) { return s.shape.decode_kv_tokens + s.shape.prefill_tokens; });
}

/// requests_of(shape): by what the host's line rises; 0: no such step.
template <typename RequestsOf>
HostLine line_through(std::span<const StepSample> samples, RequestsOf requests_of, double least_rise) {
  std::map<std::int32_t, std::vector<const StepSample*>> by_batch;
  for (const StepSample& s : samples) {
    const std::int32_t requests = requests_of(s.shape);
    if (requests > 0 && s.duration > Span()) by_batch[requests].push_back(&s);
  }
  std::vector<Row> rows;
  std::vector<Row> shortest;
  for (auto& [batch, steps] : by_batch) {
    std::ranges::sort(steps, {}, &StepSample::duration);
    const auto longest = Span::from_seconds(steps.front()->duration.seconds() * (1.0 + kHostBand));
    const auto alike = std::span(steps).first(
        static_cast<std::size_t>(std::ranges::upper_bound(steps, longest, {}, &StepSample::duration) - steps.begin()));
    const auto typical = static_cast<double>(alike[alike.size() / 2]->duration.ns());
    shortest.push_back({{static_cast<double>(batch), 1.0, 0.0}, typical});
    if (whatever_the_gpu_does(alike)) rows.push_back(shortest.back());
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
