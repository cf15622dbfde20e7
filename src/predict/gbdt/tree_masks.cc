#include "predict/gbdt/tree_masks.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace wattle::predict {

Result<TreeMasks> TreeMasks::make(const GbdtTrees& ensemble) {
  const auto& trees = ensemble.trees();
  TreeMasks made;
  made.trees_ = trees.size();
  made.base_score_ = ensemble.base_score();
  struct Split {
    std::size_t threshold;
    std::size_t tree;
    std::uint64_t mask;  ///< clears the leaves on its left
  };
  std::array<std::vector<Split>, kFeatures> splits;
  for (const Tree& tree : trees) {
    for (const TreeNode& node : tree) {
      if (node.left >= 0) made.axes_[static_cast<std::size_t>(node.feature)].thresholds.push_back(node.value);
    }
  }
  for (Axis& axis : made.axes_) {
    std::ranges::sort(axis.thresholds);
    const auto repeated = std::ranges::unique(axis.thresholds);
    axis.thresholds.erase(repeated.begin(), repeated.end());
  }
  made.leaves_.resize(trees.size() * kMostLeaves);
  for (std::size_t t = 0; t < trees.size(); ++t) {
    const auto leaves = std::ranges::count_if(trees[t], [](const TreeNode& node) { return node.left < 0; });
    if (leaves > kMostLeaves) {
      return bad_input(fmt::format("trees.{}", t), fmt::format("{} leaves, at most {}", leaves, kMostLeaves));
    }
    std::size_t leaf = 0;
    const auto walk = [&](const auto& self, std::int32_t at) -> void {
      const TreeNode& node = trees[t][static_cast<std::size_t>(at)];
      if (node.left < 0) {
        made.leaves_[t * kMostLeaves + leaf++] = node.value;
        return;
      }
      const std::size_t first = leaf;
      self(self, node.left);
      const auto feature = static_cast<std::size_t>(node.feature);
      const auto& thresholds = made.axes_[feature].thresholds;
      const auto threshold = std::ranges::lower_bound(thresholds, node.value) - thresholds.begin();
      const std::uint64_t left = ((std::uint64_t{1} << (leaf - first)) - 1) << first;  // at most 63 leaves
      splits[feature].push_back({static_cast<std::size_t>(threshold), t, ~left});
      self(self, node.right);
    };
    walk(walk, 0);
  }
  for (std::size_t k = 0; k < kFeatures; ++k) {
    std::ranges::sort(splits[k], {}, &Split::threshold);
    auto& masks = made.axes_[k].masks;
    masks.assign((made.axes_[k].thresholds.size() + 1) * trees.size(), ~std::uint64_t{0});
    auto split = splits[k].begin();
    for (std::size_t i = 0; i < made.axes_[k].thresholds.size(); ++i) {
      const auto below = masks.begin() + static_cast<std::ptrdiff_t>(i * trees.size());
      std::copy_n(below, trees.size(), below + static_cast<std::ptrdiff_t>(trees.size()));
      for (; split != splits[k].end() && split->threshold == i; ++split) {
        masks[(i + 1) * trees.size() + split->tree] &= split->mask;
      }
    }
  }
  return made;
}

const std::uint64_t* TreeMasks::Axis::row(float value, std::size_t trees) const {
  const auto below = static_cast<std::size_t>(std::ranges::upper_bound(thresholds, value) - thresholds.begin());
  return masks.data() + below * trees;
}

void TreeMasks::predict_clocks(std::span<const float> clocks, float second, float third, std::span<float> out) const {
  WATTLE_CHECK(clocks.size() == out.size() && clocks.size() <= kMostClocks, "one output for each of at most 16 clocks");
  const std::size_t n = clocks.size();
  std::array<const std::uint64_t*, kMostClocks> by_clock{};
  std::array<float, kMostClocks> sums{};
  for (std::size_t c = 0; c < n; ++c) {
    by_clock[c] = axes_[0].row(clocks[c], trees_);
    sums[c] = base_score_;
  }
  const std::uint64_t* by_second = axes_[1].row(second, trees_);
  const std::uint64_t* by_third = axes_[2].row(third, trees_);
  const float* leaf = leaves_.data();
  for (std::size_t t = 0; t < trees_; ++t, leaf += kMostLeaves) {
    const std::uint64_t reachable = by_second[t] & by_third[t];
    for (std::size_t c = 0; c < n; ++c) sums[c] += leaf[std::countr_zero(reachable & by_clock[c][t])];
  }
  // not-a-number in, not-a-number out
  for (std::size_t c = 0; c < n; ++c) out[c] = sums[c] + 0.0F * (clocks[c] + second + third);
}

}  // namespace wattle::predict
