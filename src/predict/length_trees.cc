#include "predict/length_trees.h"

#include <algorithm>
#include <cmath>

namespace wattle::predict {

namespace {
constexpr double kLongestLog = 21.0;  ///< of 1.3e9 tokens: what no int32 overflows
}  // namespace

Result<LengthTrees> LengthTrees::from_xgboost(std::string_view model) {
  auto read = read_trees(model, kPromptFeatures);
  if (!read) return std::unexpected(read.error());
  LengthTrees made;
  made.base_ = read->base_score;
  made.offset_ = read->offset;
  for (const Tree& tree : read->trees) {
    const auto root = static_cast<std::int32_t>(made.nodes_.size());
    made.roots_.push_back(root);
    for (TreeNode node : tree) {
      if (node.left >= 0) node.left += root, node.right += root;
      made.nodes_.push_back(node);
    }
  }
  return made;
}

double LengthTrees::leaf(std::int32_t root, const PromptFeatures& prompt) const {
  const TreeNode* node = &nodes_[static_cast<std::size_t>(root)];
  while (node->left >= 0) {
    const bool left = prompt[static_cast<std::size_t>(node->feature)] < node->value;
    node = &nodes_[static_cast<std::size_t>(left ? node->left : node->right)];
  }
  return node->value;
}

std::vector<double> LengthTrees::sums(const PromptFeatures& prompt) const {
  std::vector<double> out;
  double sum = base_;
  for (const std::int32_t root : roots_) out.push_back(sum += leaf(root, prompt));
  return out;
}

double LengthTrees::tokens(const PromptFeatures& prompt) const {
  double sum = base_ + offset_;
  for (const std::int32_t root : roots_) sum += leaf(root, prompt);
  return std::expm1(std::clamp(sum, 0.0, kLongestLog));
}

}  // namespace wattle::predict
