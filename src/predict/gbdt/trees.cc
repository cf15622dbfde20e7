#include "predict/gbdt/trees.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace wattle::predict {

namespace {

using nlohmann::json;

/// An array of numbers.
struct JsonColumn {
  std::vector<double> values;
  bool present = false;
  bool numbers = true;   ///< nothing else in it
  bool integers = true;  ///< written as integers
};

struct RawTree {
  JsonColumn left, right, feature, value, kinds;
};

/// What is used of a model, as it stands in the file.
struct RawModel {
  JsonColumn version;
  std::string booster, objective, features, base_score, offset;
  JsonColumn weights;
  std::vector<RawTree> trees;
};

/// Picks that out while the text is read: a model is nearly all numbers, and a tree of JSON values made of them first
/// costs several times the reading.
class ModelReader final : public nlohmann::json_sax<json> {
 public:
  explicit ModelReader(RawModel& into) : into_(into) {}

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value), true); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value), true); }
  bool number_float(number_float_t value, const string_t&) override { return number(value, false); }
  bool binary(binary_t&) override { return other(); }
  bool string(string_t& value) override {
    other();
    if (text_ != nullptr && depth_ == 0) *text_ = value;
    return true;
  }

  bool start_object(std::size_t) override {
    other();
    if (depth_ > 0 && path_ == kTrees) into_.trees.emplace_back();
    outer_.push_back({path_.size(), depth_});
    depth_ = 0;
    return true;
  }
  bool key(string_t& name) override {
    path_.resize(outer_.back().path);
    path_ += '.';
    path_ += name;
    text_ = text_at();
    column_ = column_at();
    return true;
  }
  bool end_object() override {
    path_.resize(outer_.back().path);
    depth_ = outer_.back().depth;
    outer_.pop_back();
    text_ = nullptr;
    column_ = nullptr;
    return true;
  }
  bool start_array(std::size_t) override {
    other();
    if (depth_ == 0 && column_ != nullptr) column_->present = true;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr std::string_view kTrees = ".learner.gradient_booster.model.trees";

  struct Outer {
    std::size_t path = 0;
    int depth = 0;
  };

  bool number(double value, bool integer) {
    if (depth_ != 1 || column_ == nullptr) return other();
    column_->values.push_back(value);
    column_->integers = column_->integers && integer;
    return true;
  }
  /// A value that is no number: inside a column it does not belong, nor among the trees.
  bool other() {
    if (depth_ > 0 && column_ != nullptr) column_->numbers = false;
    return true;
  }
  [[nodiscard]] std::string* text_at() {
    if (path_ == ".learner.gradient_booster.name") return &into_.booster;
    if (path_ == ".learner.objective.name") return &into_.objective;
    if (path_ == ".learner.learner_model_param.num_feature") return &into_.features;
    if (path_ == ".learner.learner_model_param.base_score") return &into_.base_score;
    if (path_ == ".learner.attributes.offset") return &into_.offset;
    return nullptr;
  }
  [[nodiscard]] JsonColumn* column_at() {
    if (path_ == ".version") return &into_.version;
    if (path_ == ".learner.gradient_booster.model.weights") return &into_.weights;
    if (!path_.starts_with(kTrees) || into_.trees.empty()) return nullptr;
    const auto name = std::string_view(path_).substr(kTrees.size());
    RawTree& tree = into_.trees.back();
    if (name == ".left_children") return &tree.left;
    if (name == ".right_children") return &tree.right;
    if (name == ".split_indices") return &tree.feature;
    if (name == ".split_conditions") return &tree.value;
    if (name == ".split_type") return &tree.kinds;
    return nullptr;
  }

  RawModel& into_;
  std::string path_;  ///< of the value that comes next; an array's elements have its own
  std::vector<Outer> outer_;
  int depth_ = 0;  ///< arrays open within the innermost object
  std::string* text_ = nullptr;
  JsonColumn* column_ = nullptr;
};

/// UBJSON begins with a length where JSON has a quote or white space (XGBoost, Learner::LoadModel, tells them apart
/// so).
bool is_ubjson(std::string_view text) {
  return text.size() > 1 && text[0] == '{' && std::string_view("\" }\t\r\n").find(text[1]) == std::string_view::npos;
}

Result<double> number_of(const std::string& text, const char* where) {
  const json number = json::parse(text, nullptr, false);
  if (number.is_number() && std::isfinite(number.get<double>())) return number.get<double>();
  return bad_input(where, fmt::format("'{}' is no number", text));
}

/// Reads what both boosters share, and checks it; `kind` is the booster expected.
Result<float> read_model(std::string_view text, std::string_view kind, std::size_t features, RawModel& model) {
  ModelReader reader(model);
  const auto format =
      is_ubjson(text) ? nlohmann::detail::input_format_t::ubjson : nlohmann::detail::input_format_t::json;
  if (!json::sax_parse(text, &reader, format)) {
    return bad_input("model", "neither JSON nor UBJSON, or cut off; save it again with XGBoost");
  }
  const JsonColumn& version = model.version;
  if (!version.present || version.values.empty() || !version.integers) {
    return bad_input("version", "missing; this is no XGBoost model");
  }
  if (version.values[0] != 1.0) {
    return bad_input("version", fmt::format("{}, and only 1.x is understood; train again", version.values[0]));
  }
  if (model.booster != kind) {
    return bad_input("learner.gradient_booster.name", fmt::format("'{}' where '{}' is needed", model.booster, kind));
  }
  if (model.objective != "reg:absoluteerror" && model.objective != "reg:squarederror") {
    return bad_input("learner.objective.name",
                     fmt::format("'{}' where reg:absoluteerror or reg:squarederror is needed", model.objective));
  }
  if (model.features != std::to_string(features)) {
    return bad_input("learner.learner_model_param.num_feature", fmt::format("{} is needed", features));
  }
  const auto base_score = number_of(model.base_score, "learner.learner_model_param.base_score");
  if (!base_score) return std::unexpected(base_score.error());
  return static_cast<float>(*base_score);
}

/// Makes tree `index`; its nodes are checked to be finite and in range, not yet to be a tree.
Result<Tree> make_tree(const RawTree& raw, std::size_t index, std::size_t features) {
  const auto where = [&](std::string_view key) { return fmt::format("trees.{}.{}", index, key); };
  const std::size_t count = raw.left.values.size();
  for (const JsonColumn* column : {&raw.left, &raw.right, &raw.feature, &raw.value}) {
    if (!column->numbers) return bad_input(where("split_conditions"), "a node is not numbers");
    if (!column->present || count == 0 || column->values.size() != count) {
      return bad_input(where("left_children"), "the columns of a tree are missing or differ in length");
    }
  }
  if (!raw.kinds.numbers || std::ranges::any_of(raw.kinds.values, [](double kind) { return kind != 0.0; })) {
    return bad_input(where("split_type"), "categorical splits are not understood");
  }
  if (!raw.left.integers || !raw.right.integers || !raw.feature.integers) {
    return bad_input(where("split_conditions"), "a node is not numbers");
  }
  Tree nodes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double l = raw.left.values[i];
    const double r = raw.right.values[i];
    const double f = raw.feature.values[i];
    const auto most = static_cast<double>(count);
    const bool leaf = l < 0 && r < 0;
    const bool inner = l > 0 && r > 0 && l < most && r < most && f >= 0 && f < static_cast<double>(features);
    if (!leaf && !inner) return bad_input(where("left_children"), fmt::format("node {} points nowhere", i));
    const auto v = static_cast<float>(raw.value.values[i]);
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

Result<TreeSum> read_trees(std::string_view text, std::size_t features) {
  RawModel model;
  const auto base_score = read_model(text, "gbtree", features, model);
  if (!base_score) return std::unexpected(base_score.error());
  if (model.trees.empty()) return bad_input("learner.gradient_booster.model.trees", "no trees");
  TreeSum sum;
  sum.base_score = *base_score;
  if (!model.offset.empty()) {
    const auto offset = number_of(model.offset, "learner.attributes.offset");
    if (!offset) return std::unexpected(offset.error());
    sum.offset = *offset;
  }
  for (const RawTree& raw : model.trees) {
    auto read = make_tree(raw, sum.trees.size(), features);
    if (!read) return std::unexpected(read.error());
    const int depth = depth_of(*read, 0, GbdtTrees::kDeepest);
    if (depth > GbdtTrees::kDeepest) {
      return bad_input(fmt::format("trees.{}", sum.trees.size()), fmt::format("deeper than {}", GbdtTrees::kDeepest));
    }
    sum.trees.push_back(std::move(*read));
  }
  return sum;
}

Result<GbdtTrees> GbdtTrees::read(std::string_view text, std::optional<float> fourth) {
  auto sum = read_trees(text, kFeatures + (fourth ? 1 : 0));
  if (!sum) return std::unexpected(sum.error());
  GbdtTrees made;
  made.base_score_ = sum->base_score;
  made.trees_ = std::move(sum->trees);
  for (Tree& tree : made.trees_) {
    if (!fourth) break;
    Tree rest;
    copy_where(tree, 0, kFeatures, *fourth, rest);
    tree = std::move(rest);
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

Result<LinearBooster> LinearBooster::from_xgboost(std::string_view text, std::size_t features) {
  RawModel model;
  const auto base_score = read_model(text, "gblinear", features, model);
  if (!base_score) return std::unexpected(base_score.error());
  const JsonColumn& weights = model.weights;
  const char* const key = "learner.gradient_booster.model.weights";
  if (!weights.present || weights.values.size() != features + 1) {
    return bad_input(key, fmt::format("{} weights and a bias are needed", features));
  }
  LinearBooster made;
  for (const double weight : weights.values) {
    if (!weights.numbers || !std::isfinite(weight)) return bad_input(key, "a weight is not finite");
    made.weights.push_back(static_cast<float>(weight));
  }
  made.bias = made.weights.back();
  made.base_score = *base_score;
  made.weights.pop_back();
  return made;
}

float LinearBooster::predict(std::span<const float> features) const {
  float sum = bias + base_score;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += features[i] * weights[i];
  return sum;
}

}  // namespace wattle::predict
