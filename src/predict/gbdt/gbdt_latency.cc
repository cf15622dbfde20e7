#include "predict/gbdt/gbdt_latency.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/wide.h"

namespace wattle::predict {

namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kLongestMs = 1e9;  ///< keeps sums within 64 bits of ns; nothing believes it anyway

std::int64_t to_ns(double ms) { return std::llround(std::clamp(ms, -kLongestMs, kLongestMs) * kNsPerMs); }

std::size_t cell_of(const std::vector<float>& thresholds, float x) {
  return static_cast<std::size_t>(std::ranges::upper_bound(thresholds, x) - thresholds.begin());
}

/// Cells [from, to) along each feature.
struct Box {
  std::array<std::size_t, kFeatures> from{};
  std::array<std::size_t, kFeatures> to{};
};

/// Calls f(box, value) for each leaf that some input reaches.
template <typename F>
void for_each_leaf(const Tree& tree, std::int32_t at, const Box& box,
                   const std::array<std::vector<float>, kFeatures>& thresholds, F&& f) {
  const TreeNode& node = tree[static_cast<std::size_t>(at)];
  if (node.left < 0) return f(box, node.value);
  const auto k = static_cast<std::size_t>(node.feature);
  const std::size_t border = cell_of(thresholds[k], node.value);  // the first cell on the right
  Box left = box;
  left.to[k] = std::min(left.to[k], border);
  if (left.from[k] < left.to[k]) for_each_leaf(tree, node.left, left, thresholds, f);
  Box right = box;
  right.from[k] = std::max(right.from[k], border);
  if (right.from[k] < right.to[k]) for_each_leaf(tree, node.right, right, thresholds, f);
}

}  // namespace

Result<GbdtLatency> GbdtLatency::make(LinearBooster prefill, const GbdtTrees& decode, Target target) {
  if (prefill.weights.size() != 2)
    return bad_input("prefill", "a weight for the clock and one for the tokens is needed");
  std::array<std::vector<float>, kFeatures> thresholds;
  for (const Tree& tree : decode.trees()) {
    for (const TreeNode& node : tree) {
      if (node.left >= 0) thresholds[static_cast<std::size_t>(node.feature)].push_back(node.value);
    }
  }
  Box all;
  std::size_t cells = 1;
  for (std::size_t k = 0; k < kFeatures; ++k) {
    std::ranges::sort(thresholds[k]);
    const auto repeated = std::ranges::unique(thresholds[k]);
    thresholds[k].erase(repeated.begin(), repeated.end());
    all.to[k] = thresholds[k].size() + 1;
    cells = cells > kMostCells ? cells : cells * all.to[k];
  }
  if (cells > kMostCells) {
    return bad_input(
        "decode",
        fmt::format("thresholds cut the plane into more than {} cells; train with histogram bins", kMostCells));
  }

  // Leaves are boxes: add each at its corners, then sum up along requests and KV tokens.
  const std::size_t rows = all.to[1];
  const std::size_t columns = all.to[2];
  std::vector<double> sums(cells, 0.0);
  for (const Tree& tree : decode.trees()) {
    for_each_leaf(tree, 0, all, thresholds, [&](const Box& box, float value) {
      for (std::size_t c = box.from[0]; c < box.to[0]; ++c) {
        double* plane = sums.data() + c * rows * columns;
        const auto add = [&](std::size_t r, std::size_t k, double v) {
          if (r < rows && k < columns) plane[r * columns + k] += v;
        };
        add(box.from[1], box.from[2], value);
        add(box.to[1], box.from[2], -double{value});
        add(box.from[1], box.to[2], -double{value});
        add(box.to[1], box.to[2], value);
      }
    });
  }
  GbdtLatency made;
  made.table_.resize(cells);
  for (std::size_t line = 0; line < cells / columns; ++line) {
    double* sum = sums.data() + line * columns;
    const bool first_row = line % rows == 0;
    double along = 0.0;
    for (std::size_t k = 0; k < columns; ++k) {
      along += sum[k];
      sum[k] = along + (first_row ? 0.0 : sum[k - columns]);
    }
  }
  const auto to_ms = [&](double sum) {
    const double value = double{decode.base_score()} + sum;
    if (target == Target::Milliseconds) return value;
    return value > 0.0 ? std::min(1e3 / value, kLongestMs) : kLongestMs;
  };
  std::ranges::transform(sums, sums.begin(), to_ms);
  // Of two monotone envelopes, one from above and one from below, the middle is monotone and leans neither way.
  std::vector<double> above(columns);
  for (std::size_t line = 0; line < cells / columns; ++line) {
    const double* sum = sums.data() + line * columns;
    std::partial_sum(sum, sum + columns, above.begin(), [](double a, double b) { return std::max(a, b); });
    double below = sum[columns - 1];
    for (std::size_t k = columns; k-- > 0;) {
      below = std::min(below, sum[k]);
      made.table_[line * columns + k] = to_ns(0.5 * (above[k] + below));
    }
  }
  made.prefill_ = std::move(prefill);
  made.clock_at_ = std::move(thresholds[0]);
  made.request_at_ = std::move(thresholds[1]);
  made.kv_at_ = std::move(thresholds[2]);
  return made;
}

Span GbdtLatency::prefill_time(const StepShape& shape, MegaHertz clock) const {
  if (shape.prefill_tokens <= 0) return {};
  const std::array features{static_cast<float>(clock.value()), static_cast<float>(shape.prefill_tokens)};
  return Span(to_ns(double{prefill_.predict(features)}));
}

const std::int64_t* GbdtLatency::row(const StepShape& shape, MegaHertz clock) const {
  const std::size_t c = cell_of(clock_at_, static_cast<float>(clock.value()));
  const std::size_t r = cell_of(request_at_, static_cast<float>(shape.decode_requests));
  return table_.data() + (c * (request_at_.size() + 1) + r) * (kv_at_.size() + 1);
}

Span GbdtLatency::step_time(const StepShape& shape, MegaHertz clock) const {
  Span time = prefill_time(shape, clock);
  if (shape.decode_requests > 0) {
    time = time + Span(row(shape, clock)[cell_of(kv_at_, static_cast<float>(shape.decode_kv_tokens))]);
  }
  return time;
}

void GbdtLatency::decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens,
                               MegaHertz clock, std::span<Span> out) const {
  const std::size_t columns = kv_at_.size() + 1;
  const std::size_t c = cell_of(clock_at_, static_cast<float>(clock.value()));
  const std::int64_t* const plane = table_.data() + c * (request_at_.size() + 1) * columns;
  // Neighbours lie in the same cell or one nearby: walk there instead of searching.
  const auto walk = [](const std::vector<float>& thresholds, float x, std::size_t& cell) {
    while (cell < thresholds.size() && thresholds[cell] <= x) ++cell;
    while (cell > 0 && thresholds[cell - 1] > x) --cell;
  };
  std::size_t r = 0;
  std::size_t k = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    walk(request_at_, static_cast<float>(requests[i]), r);
    walk(kv_at_, static_cast<float>(kv_tokens[i]), k);
    out[i] = Span(plane[r * columns + k]);
  }
}

std::int64_t GbdtLatency::kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const std::int64_t own = shape.decode_kv_tokens;
  if (step_time(shape, clock) > budget) return own;
  if (shape.decode_requests <= 0) return kAny;
  const std::int64_t left = (Int128{budget.ns()} - prefill_time(shape, clock).ns()) > kAny
                                ? kAny
                                : budget.ns() - prefill_time(shape, clock).ns();
  const std::int64_t* first = row(shape, clock);
  const std::int64_t* last = first + kv_at_.size() + 1;
  const auto column = static_cast<std::size_t>(std::upper_bound(first, last, left) - first);  // too long from here on
  if (column > kv_at_.size()) return kAny;
  const float border = kv_at_[column - 1];
  auto most = static_cast<std::int64_t>(std::ceil(double{border})) - 1;
  while (static_cast<float>(most) >= border) --most;  // beyond 2^24 several counts are one float
  return std::max(own, most);
}

}  // namespace wattle::predict
