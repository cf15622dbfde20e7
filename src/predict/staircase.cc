#include "predict/staircase.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "predict/least_squares.h"

namespace wattle::predict {

namespace {

constexpr double kNoiseFloor = 0.002;  ///< relative; below it a step is not worth a tile
constexpr double kNoiseGuess = 0.01;   ///< relative; where no batch size was measured often enough to tell
constexpr std::size_t kEnoughToJudge = 5;
constexpr std::size_t kManyBatches = 192;  ///< beyond, only multiples of 8 may be borders: the search is quadratic

struct Cleaned {
  std::vector<std::pair<const StepSample*, double>> weighted;  ///< weight 0: wild
  double noise = kNoiseGuess;
};

/// Judges every sample against the line through those of its own clock and batch size.
Cleaned clean(std::span<const StepSample* const> samples) {
  Cleaned cleaned;
  std::vector<double> relative_errors;
  for (auto first = samples.begin(); first != samples.end();) {
    auto last = first;
    while (last != samples.end() && (*last)->clock == (*first)->clock &&
           (*last)->shape.decode_requests == (*first)->shape.decode_requests) {
      ++last;
    }
    const auto count = static_cast<std::size_t>(last - first);
    if (count < kEnoughToJudge) {
      for (; first != last; ++first) cleaned.weighted.emplace_back(*first, 1.0);
      continue;
    }
    std::vector<Row> rows;
    for (auto s = first; s != last; ++s) {
      rows.push_back(
          {{static_cast<double>((*s)->shape.decode_kv_tokens), 1.0, 0.0}, static_cast<double>((*s)->duration.ns())});
    }
    const Coefficients line = fit_robust(rows);
    std::vector<double> errors;
    for (const Row& row : rows) {
      const double predicted = std::max(1.0, predict_row(line, row));
      errors.push_back(std::abs(row.y - predicted) / predicted);
    }
    std::vector<double> sorted = errors;
    std::ranges::sort(sorted);
    const double typical = std::max(1.4826 * sorted[sorted.size() / 2], kNoiseFloor);
    for (std::size_t i = 0; i < count; ++i, ++first) {
      const bool wild = errors[i] > 5.0 * typical;
      cleaned.weighted.emplace_back(*first, wild ? 0.0 : 1.0);
      if (!wild) relative_errors.push_back(errors[i]);
    }
  }
  if (!relative_errors.empty()) {
    std::ranges::sort(relative_errors);
    cleaned.noise = std::max(kNoiseFloor, 1.4826 * relative_errors[relative_errors.size() / 2]);
  }
  return cleaned;
}

}  // namespace

std::vector<std::int32_t> find_tile_ends(std::span<const StepSample> samples) {
  std::vector<const StepSample*> decodes;
  for (const auto& s : samples) {
    if (s.shape.decode_requests > 0 && s.shape.prefill_tokens == 0) decodes.push_back(&s);
  }
  std::ranges::sort(decodes, [](const StepSample* a, const StepSample* b) {
    return std::pair(a->clock, a->shape.decode_requests) < std::pair(b->clock, b->shape.decode_requests);
  });

  // Where a tile may end: at a measured batch size.
  std::map<std::int32_t, std::size_t> batches;
  for (const auto* s : decodes) batches[s->shape.decode_requests] = 0;
  std::vector<std::int32_t> ends;
  for (const auto& [batch, unused] : batches) {
    if (batches.size() <= kManyBatches || batch % 8 == 0 || batch == batches.rbegin()->first) ends.push_back(batch);
  }
  if (ends.size() < 2) return {};
  for (auto& [batch, slot] : batches) {
    slot = static_cast<std::size_t>(std::ranges::lower_bound(ends, batch) - ends.begin());
  }

  std::map<MegaHertz, double> mean;  // every clock counts alike: durations relative to its mean
  std::map<MegaHertz, double> count;
  for (const auto* s : decodes) {
    mean[s->clock] += static_cast<double>(s->duration.ns());
    count[s->clock] += 1.0;
  }
  const Cleaned cleaned = clean(decodes);

  // prefix[clock][slot]: moments of all samples in slots before `slot`.
  std::map<MegaHertz, std::vector<Moments>> prefix;
  for (const auto& [sample, weight] : cleaned.weighted) {
    auto& sums = prefix[sample->clock];
    if (sums.empty()) sums.resize(ends.size() + 1);
    const double unit = count[sample->clock] / std::max(1.0, mean[sample->clock]);
    const Row row{
        {static_cast<double>(sample->shape.decode_requests), static_cast<double>(sample->shape.decode_kv_tokens), 1.0},
        static_cast<double>(sample->duration.ns()) * unit};
    const std::size_t slot = batches[sample->shape.decode_requests];
    sums[slot + 1].add(row, weight);
  }
  for (auto& [clock, sums] : prefix) {
    for (std::size_t i = 1; i < sums.size(); ++i) sums[i] = sums[i] + sums[i - 1];
  }

  const double noise2 = cleaned.noise * cleaned.noise;
  const double price = noise2 * 3.0 * static_cast<double>(prefix.size()) *
                       std::log(std::max(2.0, static_cast<double>(cleaned.weighted.size())));
  std::vector<double> best(ends.size() + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> from(ends.size() + 1, 0);
  best[0] = 0.0;
  for (std::size_t to = 1; to <= ends.size(); ++to) {
    for (std::size_t start = 0; start < to; ++start) {
      double cost = best[start] + price;
      for (const auto& [clock, sums] : prefix) {
        if (cost >= best[to]) break;
        cost += (sums[to] - sums[start]).solve_non_negative().residual;
      }
      if (cost < best[to]) {
        best[to] = cost;
        from[to] = start;
      }
    }
  }
  std::vector<std::int32_t> tile_ends;
  for (std::size_t at = from[ends.size()]; at > 0; at = from[at]) tile_ends.push_back(ends[at - 1]);
  std::ranges::reverse(tile_ends);
  return tile_ends;
}

}  // namespace wattle::predict
