#include "predict/staircase.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "predict/least_squares.h"

namespace wattle::predict {

namespace {

constexpr double kNoiseFloor = 0.002;  ///< relative; below it a step is not worth a tile
constexpr double kNoiseGuess = 0.01;   ///< relative; where no batch size was measured often enough to tell
constexpr double kWild = 5.0;          ///< robust standard deviations
constexpr std::size_t kEnoughToJudge = 5;

struct Cleaned {
  std::vector<std::pair<const StepSample*, double>> weighted;  ///< weight 0: wild
  double noise = kNoiseGuess;
};

Row row_of(const StepSample& s) {
  return {{static_cast<double>(s.shape.decode_requests), static_cast<double>(s.shape.decode_kv_tokens), 1.0},
          static_cast<double>(s.duration.ns())};
}

/// Errors relative to the prediction, and how large they typically are (a robust standard deviation).
struct Errors {
  std::vector<double> relative;
  double typical = kNoiseFloor;
};

Errors errors_of(std::span<const Row> rows) {
  const Coefficients fitted = fit_robust(rows);
  Errors errors;
  for (const Row& row : rows) {
    const double predicted = std::max(1.0, predict_row(fitted, row));
    errors.relative.push_back(std::abs(row.y - predicted) / predicted);
  }
  std::vector<double> sorted = errors.relative;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  errors.typical = std::max(kNoiseFloor, 1.4826 * *middle);
  return errors;
}

/// Calls f(begin, end) for each run of equal keys.
template <typename Key, typename F>
void for_each_run(std::size_t count, Key&& key, F&& f) {
  for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && key(end) == key(begin)) ++end;
    f(begin, end);
  }
}

/// Leaves out wild samples, in two rounds: those far from one plane through the whole clock, unless nearly all of their
/// batch size are (a staircase does not fit one plane well, but a preempted step fits worse); then those far
/// from the line through the rest of their own clock and batch size. Samples must be sorted by (clock, batch).
Cleaned clean(std::span<const StepSample* const> samples) {
  std::vector<Row> rows;
  for (const auto* s : samples) rows.push_back(row_of(*s));
  std::vector<char> wild(rows.size(), 0);
  const auto clock_of = [&](std::size_t i) { return samples[i]->clock; };
  const auto batch_of = [&](std::size_t i) { return std::pair(samples[i]->clock, samples[i]->shape.decode_requests); };

  for_each_run(rows.size(), clock_of, [&](std::size_t begin, std::size_t end) {
    const Errors errors = errors_of(std::span(rows).subspan(begin, end - begin));
    for (std::size_t i = begin; i < end; ++i) wild[i] = errors.relative[i - begin] > kWild * errors.typical ? 1 : 0;
  });
  std::vector<double> tame_errors;
  for_each_run(rows.size(), batch_of, [&](std::size_t begin, std::size_t end) {
    const auto group = std::span(wild).subspan(begin, end - begin);
    if (5 * std::ranges::count(group, 1) >= 4 * std::ssize(group)) std::ranges::fill(group, 0);
    std::vector<std::size_t> tame;
    for (std::size_t i = begin; i < end; ++i) {
      if (wild[i] == 0) tame.push_back(i);
    }
    if (tame.size() < kEnoughToJudge) return;
    std::vector<Row> line;
    for (const std::size_t i : tame) line.push_back({{rows[i].x[1], 1.0, 0.0}, rows[i].y});
    const Errors errors = errors_of(line);
    for (std::size_t i = 0; i < tame.size(); ++i) {
      if (errors.relative[i] > kWild * errors.typical) {
        wild[tame[i]] = 1;
      } else {
        tame_errors.push_back(errors.relative[i]);
      }
    }
  });

  Cleaned cleaned;
  for (std::size_t i = 0; i < rows.size(); ++i) cleaned.weighted.emplace_back(samples[i], wild[i] != 0 ? 0.0 : 1.0);
  if (!tame_errors.empty()) {
    std::ranges::sort(tame_errors);
    cleaned.noise = std::max(kNoiseFloor, 1.4826 * tame_errors[tame_errors.size() / 2]);
  }
  return cleaned;
}

/// May a tile end at a batch size of [from, to)? Matrix products have tiles of 8 rows and more, engines compile for
/// multiples of 4 up to 16 and of 8 beyond (vLLM, SGLang): between two measured sizes without one of these nothing
/// ends.
bool may_end_between(std::int32_t from, std::int32_t to) {
  const std::int32_t unit = from < 4 ? 1 : from < 16 ? 4 : 8;
  return (to - 1) / unit * unit >= from;
}

/// Where a tile may end: at measured batch sizes.
struct MayEnd {
  std::vector<std::int32_t> ends;
  std::vector<std::ptrdiff_t> sizes{0};  ///< how many batch sizes were measured up to each end

  [[nodiscard]] std::size_t slot(std::int32_t batch) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ends, batch) - ends.begin());
  }
};

MayEnd may_end(std::span<const StepSample* const> decodes) {
  std::set<std::int32_t> batches;
  for (const auto* s : decodes) batches.insert(s->shape.decode_requests);
  MayEnd found;
  for (auto at = batches.begin(); at != batches.end(); ++at) {
    const auto next = std::next(at);
    if (next == batches.end() || may_end_between(*at, *next)) {
      found.ends.push_back(*at);
      found.sizes.push_back(std::distance(batches.begin(), next));
    }
  }
  return found;
}

/// By clock and slot: the moments of all samples in the slots before it.
using MomentsBefore = std::map<MegaHertz, std::vector<Moments>>;

MomentsBefore moments_before(const Cleaned& cleaned, const MayEnd& may) {
  MomentsBefore before;
  for (const auto& [sample, weight] : cleaned.weighted) {
    auto& sums = before[sample->clock];
    if (sums.empty()) sums.resize(may.ends.size() + 1);
    // Errors count relative to the step: the steps between small batches are as telling as those between large ones.
    Row row = row_of(*sample);
    const double unit = 1.0 / std::max(1.0, row.y);
    for (double& x : row.x) x *= unit;
    row.y *= unit;
    sums[may.slot(sample->shape.decode_requests) + 1].add(row, weight);
  }
  for (auto& [clock, sums] : before) {
    for (std::size_t i = 1; i < sums.size(); ++i) sums[i] = sums[i] + sums[i - 1];
  }
  return before;
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
  const MayEnd may = may_end(decodes);
  const auto& [ends, sizes] = may;
  if (ends.size() < 2) return {};
  const Cleaned cleaned = clean(decodes);
  const MomentsBefore before = moments_before(cleaned, may);

  // The cheapest division of the sizes up to each end: residuals, and a price for every tile.
  const double noise2 = cleaned.noise * cleaned.noise;
  const double price = noise2 * 3.0 * static_cast<double>(before.size()) *
                       std::log(std::max(2.0, static_cast<double>(cleaned.weighted.size())));
  std::vector<double> best(ends.size() + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> from(ends.size() + 1, 0);
  best[0] = 0.0;
  for (std::size_t to = 1; to <= ends.size(); ++to) {
    for (std::size_t start = 0; start < to; ++start) {
      // One size does not tell requests from the constant, which matters wherever a tile has others.
      const std::int32_t first = start == 0 ? 1 : ends[start - 1] + 1;
      if (sizes[to] - sizes[start] < 2 && ends[to - 1] > first) continue;
      double cost = best[start] + price;
      for (const auto& [clock, sums] : before) {
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
