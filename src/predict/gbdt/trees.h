#pragma once
// A gradient-boosted ensemble read from XGBoost's model, JSON or UBJSON. Fast evaluation: tree_table.h.
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::predict {

/// In the order of training. Decode: clock (MHz), running requests, KV tokens. Prefill: clock (MHz), prompt tokens,
/// attention pairs (StepShape::prefill_context_tokens).
inline constexpr std::size_t kFeatures = 3;
using Features = std::array<float, kFeatures>;

/// One node as XGBoost writes it: goes left where feature < threshold; a leaf where `left` is negative.
struct TreeNode {
  std::int32_t left = -1;
  std::int32_t right = -1;
  std::int32_t feature = 0;
  float value = 0.0F;  ///< threshold, or a leaf's contribution
};
using Tree = std::vector<TreeNode>;

/// An ensemble over any number of features.
struct TreeSum {
  std::vector<Tree> trees;
  float base_score = 0.0F;
  double offset = 0.0;  ///< added to the sum: the model's attribute "offset", or 0
};
/// Errors: those of GbdtTrees; not exactly `features` features; an offset that is not a number.
[[nodiscard]] Result<TreeSum> read_trees(std::string_view text, std::size_t features);

class GbdtTrees {
 public:
  static constexpr int kDeepest = 10;

  /// Errors (`where` is the key): neither JSON nor UBJSON, or truncated; a version other than 1.x; a booster other than
  /// gbtree, or an objective that transforms its sum; not exactly three features; a categorical split; an invalid tree
  /// or one deeper than 10; a threshold or leaf that is not finite.
  [[nodiscard]] static Result<GbdtTrees> from_xgboost(std::string_view text) { return read(text, std::nullopt); }
  /// From a model with a fourth feature: the trees that remain if that feature has this value.
  [[nodiscard]] static Result<GbdtTrees> from_xgboost_at(std::string_view text, float fourth) {
    return read(text, fourth);
  }

  /// XGBoost's sum, to float rounding. NaN if a feature is NaN.
  [[nodiscard]] float predict(const Features& features) const;

  [[nodiscard]] std::size_t size() const { return trees_.size(); }
  [[nodiscard]] const std::vector<Tree>& trees() const { return trees_; }
  [[nodiscard]] float base_score() const { return base_score_; }

 private:
  [[nodiscard]] static Result<GbdtTrees> read(std::string_view text, std::optional<float> fourth);

  std::vector<Tree> trees_;
  float base_score_ = 0.0F;
};

/// A linear booster: a weight per feature, then the bias.
struct LinearBooster {
  std::vector<float> weights;
  float bias = 0.0F;
  float base_score = 0.0F;

  /// In XGBoost's own order and precision. features.size() == weights.size().
  [[nodiscard]] float predict(std::span<const float> features) const;

  /// Errors: as GbdtTrees, for gblinear.
  [[nodiscard]] static Result<LinearBooster> from_xgboost(std::string_view text, std::size_t features);
};

}  // namespace wattle::predict
