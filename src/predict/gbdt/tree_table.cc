#include "predict/gbdt/tree_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace wattle::predict {

namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kLongestMs = 1e9;  ///< keeps sums within 64 bits of ns; nothing believes it anyway

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

/// Of two monotone envelopes, one from above and one from below, the middle is monotone and leans neither way.
void make_monotone(std::span<const double> ms, std::size_t columns, std::span<std::int64_t> ns) {
  std::vector<double> above(columns);
  for (std::size_t line = 0; line < ms.size(); line += columns) {
    const double* sum = ms.data() + line;
    std::partial_sum(sum, sum + columns, above.begin(), [](double a, double b) { return std::max(a, b); });
    double below = sum[columns - 1];
    for (std::size_t k = columns; k-- > 0;) {
      below = std::min(below, sum[k]);
      ns[line + k] = ns_of_ms(0.5 * (above[k] + below));
    }
  }
}

}  // namespace

Result<TreeTable> TreeTable::make(const GbdtTrees& trees, bool monotone, Target target) {
  std::array<std::vector<float>, kFeatures> thresholds;
  for (const Tree& tree : trees.trees()) {
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
    return bad_input("trees", fmt::format("thresholds cut the plane into more than {} cells; train with histogram bins",
                                          kMostCells));
  }

  // Leaves are boxes: add each at its corners, then sum up along the second and the third feature.
  const std::size_t rows = all.to[1];
  const std::size_t columns = all.to[2];
  std::vector<double> sums(cells, 0.0);
  for (const Tree& tree : trees.trees()) {
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
  TreeTable made;
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
    const double value = double{trees.base_score()} + sum;
    if (target == Target::Milliseconds) return value;
    return value > 0.0 ? std::min(1e3 / value, kLongestMs) : kLongestMs;
  };
  std::ranges::transform(sums, sums.begin(), to_ms);
  if (!monotone) {
    std::ranges::transform(sums, made.table_.begin(), ns_of_ms);
  } else {
    make_monotone(sums, columns, made.table_);
  }
  made.clock_ = std::move(thresholds[0]);
  made.second_ = std::move(thresholds[1]);
  made.third_ = std::move(thresholds[2]);
  return made;
}

const std::int64_t* TreeTable::row(float clock, float second) const {
  const std::size_t line = cell_of(clock_, clock) * (second_.size() + 1) + cell_of(second_, second);
  return table_.data() + line * (third_.size() + 1);
}

std::int64_t TreeTable::at(float clock, float second, float third) const {
  return row(clock, second)[cell_of(third_, third)];
}

void TreeTable::many(float clock, std::span<const std::int32_t> second, std::span<const std::int64_t> third,
                     std::span<Span> out) const {
  const std::size_t columns = third_.size() + 1;
  const std::int64_t* const plane = table_.data() + cell_of(clock_, clock) * (second_.size() + 1) * columns;
  // Neighbours lie in the same cell or one nearby: walk there instead of searching.
  const auto walk = [](const std::vector<float>& thresholds, float x, std::size_t& cell) {
    while (cell < thresholds.size() && thresholds[cell] <= x) ++cell;
    while (cell > 0 && thresholds[cell - 1] > x) --cell;
  };
  std::size_t r = 0;
  std::size_t k = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    walk(second_, static_cast<float>(second[i]), r);
    walk(third_, static_cast<float>(third[i]), k);
    out[i] = Span(plane[r * columns + k]);
  }
}

std::int64_t ns_of_ms(double ms) { return std::llround(std::clamp(ms, -kLongestMs, kLongestMs) * kNsPerMs); }

}  // namespace wattle::predict
