#include "predict/gbdt/trees.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace wattle::predict {

namespace {

using nlohmann::json;

/// A value by its path, null where anything on the way is missing.
const json* find(const json& root, std::string_view path) {
  const json* at = &root;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const auto key = std::string(path.substr(0, dot));
    path.remove_prefix(std::min(path.size(), dot + 1));
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

std::string text_at(const json& root, std::string_view path) {
  const json* value = find(root, path);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

struct Header {
  json root;
  double base_score = 0.0;
};

/// What both boosters share; `kind` is the booster expected.
Result<Header> read_header(std::string_view text, std::string_view kind, std::size_t features) {
  Header header{json::parse(text, nullptr, false), 0.0};
  const json& root = header.root;
  if (root.is_discarded()) return bad_input("model", "not JSON, or cut off; save it again with XGBoost");
  const json* version = find(root, "version");
  if (version == nullptr || !version->is_array() || version->empty() || !(*version)[0].is_number_integer()) {
    return bad_input("version", "missing; this is no XGBoost model");
  }
  if ((*version)[0] != 1) {
    return bad_input("version", fmt::format("{}, and only 1.x is understood; train again", (*version)[0].dump()));
  }
  if (const auto name = text_at(root, "learner.gradient_booster.name"); name != kind) {
    return bad_input("learner.gradient_booster.name", fmt::format("'{}' where '{}' is needed", name, kind));
  }
  const auto objective = text_at(root, "learner.objective.name");
  if (objective != "reg:absoluteerror" && objective != "reg:squarederror") {
    return bad_input("learner.objective.name",
                     fmt::format("'{}' where reg:absoluteerror or reg:squarederror is needed", objective));
  }
  if (text_at(root, "learner.learner_model_param.num_feature") != std::to_string(features)) {
    return bad_input("learner.learner_model_param.num_feature", fmt::format("{} is needed", features));
  }
  const auto score = text_at(root, "learner.learner_model_param.base_score");
  const json number = json::parse(score, nullptr, false);
  if (!number.is_number() || !std::isfinite(number.get<double>())) {
    return bad_input("learner.learner_model_param.base_score", fmt::format("'{}' is no number", score));
  }
  header.base_score = number.get<double>();
  return header;
}

/// Reads tree `index`; its nodes are checked to be finite and in range, not yet to be a tree.
Result<Tree> read_tree(const json& tree, std::size_t index, std::size_t features) {
  const auto where = [&](std::string_view key) { return fmt::format("trees.{}.{}", index, key); };
  const auto column = [&](const char* key) -> const json* {
    const json* values = find(tree, key);
    return values != nullptr && values->is_array() ? values : nullptr;
  };
  const json* left = column("left_children");
  const json* right = column("right_children");
  const json* feature = column("split_indices");
  const json* value = column("split_conditions");
  if (left == nullptr || right == nullptr || feature == nullptr || value == nullptr || left->empty() ||
      left->size() != right->size() || left->size() != feature->size() || left->size() != value->size()) {
    return bad_input(where("left_children"), "the columns of a tree are missing or differ in length");
  }
  if (const json* kinds = column("split_type"); kinds != nullptr) {
    if (std::ranges::any_of(*kinds, [](const json& kind) { return kind != 0; })) {
      return bad_input(where("split_type"), "categorical splits are not understood");
    }
  }
  Tree nodes(left->size());
  const auto count = static_cast<std::int64_t>(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!(*left)[i].is_number_integer() || !(*right)[i].is_number_integer() || !(*feature)[i].is_number_integer() ||
        !(*value)[i].is_number()) {
      return bad_input(where("split_conditions"), "a node is not numbers");
    }
    const auto l = (*left)[i].get<std::int64_t>();
    const auto r = (*right)[i].get<std::int64_t>();
    const auto f = (*feature)[i].get<std::int64_t>();
    const bool leaf = l < 0 && r < 0;
    const bool inner = l > 0 && r > 0 && l < count && r < count && f >= 0 && f < static_cast<std::int64_t>(features);
    if (!leaf && !inner) return bad_input(where("left_children"), fmt::format("node {} points nowhere", i));
    const auto v = static_cast<float>((*value)[i].get<double>());
    if (!std::isfinite(v)) return bad_input(where("split_conditions"), fmt::format("node {} is not finite", i));
    nodes[i] = {leaf ? -1 : static_cast<std::int32_t>(l), leaf ? -1 : static_cast<std::int32_t>(r),
                leaf ? 0 : static_cast<std::int32_t>(f), v};
  }
  return nodes;
}

/// Depth of the tree below `at`; more than `most` for what is deeper or has a cycle.
int depth_of(const Tree& tree, std::int32_t at, int most) {
  const TreeNode& node = tree[static_cast<std::size_t>(at)];
  if (node.left < 0) return 0;
  if (most == 0) return 1;
  return 1 + std::max(depth_of(tree, node.left, most - 1), depth_of(tree, node.right, most - 1));
}

/// Copies what can be reached below `at` where the feature has this value; returns its place.
std::int32_t copy_where(const Tree& from, std::int32_t at, std::size_t feature, float value, Tree& to) {
  const auto node_at = [&](std::int32_t i) -> const TreeNode& { return from[static_cast<std::size_t>(i)]; };
  while (node_at(at).left >= 0 && static_cast<std::size_t>(node_at(at).feature) == feature) {
    at = value < node_at(at).value ? node_at(at).left : node_at(at).right;
  }
  const auto place = static_cast<std::int32_t>(to.size());
  to.push_back(node_at(at));
  if (node_at(at).left >= 0) {
    const std::int32_t left = copy_where(from, node_at(at).left, feature, value, to);
    const std::int32_t right = copy_where(from, node_at(at).right, feature, value, to);
    to[static_cast<std::size_t>(place)].left = left;
    to[static_cast<std::size_t>(place)].right = right;
  }
  return place;
}

}  // namespace

Result<GbdtTrees> GbdtTrees::read(std::string_view text, std::optional<float> fourth) {
  const std::size_t features = kFeatures + (fourth ? 1 : 0);
  const auto header = read_header(text, "gbtree", features);
  if (!header) return std::unexpected(header.error());
  const json* trees = find(header->root, "learner.gradient_booster.model.trees");
  if (trees == nullptr || !trees->is_array() || trees->empty()) {
    return bad_input("learner.gradient_booster.model.trees", "no trees");
  }
  GbdtTrees made;
  made.base_score_ = static_cast<float>(header->base_score);
  for (const json& tree : *trees) {
    auto read = read_tree(tree, made.trees_.size(), features);
    if (!read) return std::unexpected(read.error());
    const int depth = depth_of(*read, 0, kDeepest);
    if (depth > kDeepest) {
      return bad_input(fmt::format("trees.{}", made.trees_.size()), fmt::format("deeper than {}", kDeepest));
    }
    if (fourth) {
      Tree rest;
      copy_where(*read, 0, kFeatures, *fourth, rest);
      *read = std::move(rest);
    }
    made.trees_.push_back(std::move(*read));
  }
  return made;
}

float GbdtTrees::predict(const Features& features) const {
  float sum = base_score_;
  for (const Tree& tree : trees_) {
    const TreeNode* node = tree.data();
    while (node->left >= 0) {
      const bool left = features[static_cast<std::size_t>(node->feature)] < node->value;
      node = tree.data() + (left ? node->left : node->right);
    }
    sum += node->value;
  }
  return sum + 0.0F * (features[0] + features[1] + features[2]);  // not-a-number stays so
}

Result<LinearBooster> LinearBooster::from_json(std::string_view text, std::size_t features) {
  const auto header = read_header(text, "gblinear", features);
  if (!header) return std::unexpected(header.error());
  const char* const key = "learner.gradient_booster.model.weights";
  const json* weights = find(header->root, key);
  if (weights == nullptr || !weights->is_array() || weights->size() != features + 1) {
    return bad_input(key, fmt::format("{} weights and a bias are needed", features));
  }
  LinearBooster made;
  for (const json& weight : *weights) {
    if (!weight.is_number() || !std::isfinite(weight.get<double>())) return bad_input(key, "a weight is not finite");
    made.weights.push_back(static_cast<float>(weight.get<double>()));
  }
  made.bias = made.weights.back();
  made.base_score = static_cast<float>(header->base_score);
  made.weights.pop_back();
  return made;
}

float LinearBooster::predict(std::span<const float> features) const {
  float sum = bias + base_score;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += features[i] * weights[i];
  return sum;
}

}  // namespace wattle::predict
