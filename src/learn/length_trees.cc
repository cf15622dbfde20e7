#include "learn/length_trees.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "learn/xgboost_handles.h"

namespace wattle::learn {

namespace {
constexpr double kScoreMemory = 500.0;
constexpr std::int64_t kScoredBeforeBelief = 50;
}  // namespace

struct LengthTrees::Model {
  Booster booster;
};

LengthTrees::LengthTrees(LengthTreesOptions options) : options_(options) {}
LengthTrees::~LengthTrees() = default;

double LengthTrees::raw(const predict::PromptFeatures& prompt) const {
  if (!model_) return 0.0;
  const OneThread one_thread;
  try {
    DMatrixHandle handle = nullptr;
    check(XGDMatrixCreateFromMat(prompt.data(), 1, prompt.size(), std::numeric_limits<float>::quiet_NaN(), &handle));
    const Matrix row(handle);
    bst_ulong length = 0;
    const float* said = nullptr;
    check(XGBoosterPredict(model_->booster.get(), row.get(), 0, 0, 0, &length, &said));
    return length == 1 && std::isfinite(said[0]) ? std::max(std::expm1(double{said[0]}), 0.0) : 0.0;
  } catch (const Failure&) {
    return 0.0;  // no belief
  }
}

double LengthTrees::predict(const predict::PromptFeatures& prompt) const {
  const bool believed = score_.scored >= kScoredBeforeBelief && score_.trees < score_.median;
  return believed ? raw(prompt) : 0.0;
}

void LengthTrees::observe(const predict::PromptFeatures& prompt, std::int32_t tokens) {
  const double truth = std::max(tokens, 0);
  if (model_) {
    ++score_.scored;
    const double weight = std::max(1.0 / static_cast<double>(score_.scored), 1.0 / kScoreMemory);
    score_.trees += weight * (std::abs(raw(prompt) - truth) - score_.trees);
    score_.median += weight * (std::abs(median_ - truth) - score_.median);
  }
  answers_.push_back({prompt, static_cast<float>(std::log1p(truth))});
  if (answers_.size() > options_.memory) answers_.pop_front();
  ++since_learned_;
}

bool LengthTrees::due() const {
  return answers_.size() >= options_.fewest && (!model_ || since_learned_ >= options_.every);
}

Result<void> LengthTrees::learn() {
  if (answers_.size() < options_.fewest) {
    return bad_input("answers", fmt::format("are {}; {} are needed", answers_.size(), options_.fewest));
  }
  std::vector<float> x;
  std::vector<float> y;
  x.reserve(answers_.size() * predict::kPromptFeatures);
  for (const Answer& answer : answers_) {
    x.insert(x.end(), answer.prompt.begin(), answer.prompt.end());
    y.push_back(answer.log_tokens);
  }
  const OneThread one_thread;
  try {
    DMatrixHandle matrix = nullptr;
    check(XGDMatrixCreateFromMat(x.data(), y.size(), predict::kPromptFeatures, std::numeric_limits<float>::quiet_NaN(),
                                 &matrix));
    const Matrix owned(matrix);
    check(XGDMatrixSetFloatInfo(matrix, "label", y.data(), y.size()));
    BoosterHandle handle = nullptr;
    check(XGBoosterCreate(&matrix, 1, &handle));
    Booster booster(handle);
    const std::vector<std::pair<const char*, std::string>> parameters = {{"booster", "gbtree"},
                                                                         {"tree_method", "hist"},
                                                                         {"objective", "reg:absoluteerror"},
                                                                         {"eta", fmt::format("{}", options_.rate)},
                                                                         {"max_depth", std::to_string(options_.depth)},
                                                                         {"subsample", "0.8"},
                                                                         {"colsample_bytree", "0.5"},
                                                                         {"nthread", "1"},
                                                                         {"verbosity", "0"},
                                                                         {"seed", std::to_string(options_.seed)}};
    for (const auto& [key, value] : parameters) check(XGBoosterSetParam(handle, key, value.c_str()));
    for (int round = 0; round < options_.rounds; ++round) check(XGBoosterUpdateOneIter(handle, round, matrix));
    model_ = std::make_unique<Model>(std::move(booster));
  } catch (const Failure&) {
    return external_failure("XGBoost", XGBGetLastError());
  }
  const auto middle = y.begin() + static_cast<std::ptrdiff_t>(y.size() / 2);
  std::ranges::nth_element(y, middle);
  median_ = std::expm1(double{*middle});
  since_learned_ = 0;
  return {};
}

}  // namespace wattle::learn
