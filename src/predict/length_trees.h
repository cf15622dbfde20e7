#pragma once
// Predicts output lengths by boosted trees on a request's features; learn/length_trainer.h trains them.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "predict/gbdt/trees.h"
#include "predict/prompt_features.h"

namespace wattle::predict {

/// A finished answer.
struct LengthAnswer {
  PromptFeatures prompt;
  std::int32_t tokens = 0;
};

/// Immutable, thread-safe, no allocation after it is made.
class LengthTrees {
 public:
  /// From XGBoost's model of log(1 + tokens), UBJSON or JSON. Errors: those of read_trees.
  [[nodiscard]] static Result<LengthTrees> from_xgboost(std::string_view model);

  /// log(1 + tokens), without the offset, after the first tree, the first two, and so on.
  [[nodiscard]] std::vector<double> sums(const PromptFeatures& prompt) const;
  /// The length that the share of answers used in training does not exceed, in tokens, at least 0.
  [[nodiscard]] double tokens(const PromptFeatures& prompt) const;

 private:
  [[nodiscard]] double leaf(std::int32_t root, const PromptFeatures& prompt) const;
  std::vector<TreeNode> nodes_;      ///< of all trees; children by index
  std::vector<std::int32_t> roots_;  ///< of each tree
  double base_ = 0.0;
  double offset_ = 0.0;
};

/// Trains trees on answers. Callable from any thread, one call at a time.
using LengthFit = std::function<Result<std::shared_ptr<const LengthTrees>>(std::span<const LengthAnswer>)>;

}  // namespace wattle::predict
