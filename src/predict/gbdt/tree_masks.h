#pragma once
// Boosted trees evaluated without a branch: which leaf of a tree is reached is the AND of one bit mask per feature
// (Lucchese et al., QuickScorer, SIGIR 2015), and the masks of all trees for each interval between a feature's
// thresholds lie in one row.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "predict/gbdt/trees.h"

namespace wattle::predict {

/// Exact: the same leaves as GbdtTrees::predict, summed in the same order. 1,000 trees take about 8 KiB a threshold.
class TreeMasks {
 public:
  static constexpr int kMostLeaves = 64;  ///< a tree of the published depth 6
  static constexpr std::size_t kMostClocks = 16;

  /// Errors: a tree of more than 64 leaves.
  [[nodiscard]] static Result<TreeMasks> make(const GbdtTrees& trees);

  /// The sum at each clock (MHz), in one pass over the trees; out.size() == clocks.size() <= 16. A feature that is not
  /// a number gives not-a-number. Allocates nothing.
  void predict_clocks(std::span<const float> clocks, float second, float third, std::span<float> out) const;

 private:
  /// Row i, one mask per tree, holds where i thresholds are <= the value.
  struct Axis {
    std::vector<float> thresholds;  ///< ascending, each once
    std::vector<std::uint64_t> masks;
    [[nodiscard]] const std::uint64_t* row(float value, std::size_t trees) const;
  };

  float base_score_ = 0.0F;
  std::size_t trees_ = 0;
  std::array<Axis, kFeatures> axes_;
  std::vector<float> leaves_;  ///< [tree][64], left to right
};

}  // namespace wattle::predict
