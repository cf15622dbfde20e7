#include "learn/length_trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/quantile.h"
#include "learn/xgboost_handles.h"

namespace wattle::learn {

namespace {

float log_of(const predict::LengthAnswer& answer) { return std::log1p(static_cast<float>(std::max(answer.tokens, 0))); }

/// Throws Failure.
Booster grow(std::span<const predict::LengthAnswer> answers, const LengthTraining& o, int rounds) {
  std::vector<float> x;
  std::vector<float> y;
  x.reserve(answers.size() * predict::kPromptFeatures);
  for (const auto& answer : answers) {
    x.insert(x.end(), answer.prompt.begin(), answer.prompt.end());
    y.push_back(log_of(answer));
  }
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
                                                                       {"eta", fmt::format("{}", o.rate)},
                                                                       {"max_depth", std::to_string(o.depth)},
                                                                       {"min_child_weight", "10"},  // answers
                                                                       {"subsample", "0.8"},
                                                                       {"colsample_bytree", "0.5"},
                                                                       {"nthread", "1"},
                                                                       {"verbosity", "0"},
                                                                       {"seed", std::to_string(o.seed)}};
  for (const auto& [key, value] : parameters) check(XGBoosterSetParam(handle, key, value.c_str()));
  for (int round = 0; round < rounds; ++round) check(XGBoosterUpdateOneIter(handle, round, matrix));
  return booster;
}

/// What answers that were not learned from say of the trees: how many of them, and how far off.
struct Judged {
  int rounds = 1;
  double offset = 0.0;  ///< the quantile of the residuals, in log(1 + tokens)
};

/// Trees of the first three quarters on the rest: as many as err least.
Result<Judged> judge(std::span<const predict::LengthAnswer> answers, const LengthTraining& o) {
  const std::size_t learned = answers.size() * 3 / 4;
  const auto unseen = answers.subspan(learned);
  const auto trees = predict::LengthTrees::from_xgboost(saved(grow(answers.first(learned), o, o.rounds).get()));
  if (!trees) return std::unexpected(trees.error());
  Judged judged;
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> sums;  // by answer and round
  for (const auto& answer : unseen) sums.push_back(trees->sums(answer.prompt));
  std::vector<double> over(unseen.size());
  for (int round = 1; round <= o.rounds; ++round) {
    double error = 0.0;
    for (std::size_t i = 0; i < unseen.size(); ++i) {
      error += std::abs(double{log_of(unseen[i])} - sums[i][static_cast<std::size_t>(round - 1)]);
    }
    if (error >= least) continue;
    least = error;
    judged.rounds = round;
    for (std::size_t i = 0; i < unseen.size(); ++i) {
      over[i] = double{log_of(unseen[i])} - sums[i][static_cast<std::size_t>(round - 1)];
    }
  }
  judged.offset = quantile(std::move(over), o.quantile);
  return judged;
}

}  // namespace

Result<std::string> train_length_trees(std::span<const predict::LengthAnswer> answers, const LengthTraining& training) {
  if (answers.size() < kFewestAnswers) {
    return bad_input("answers", fmt::format("are {}; {} are needed", answers.size(), kFewestAnswers));
  }
  const OneThread one_thread;
  try {
    const auto judged = judge(answers, training);
    if (!judged) return std::unexpected(judged.error());
    const Booster booster = grow(answers, training, judged->rounds);
    check(XGBoosterSetAttr(booster.get(), "offset", fmt::format("{}", judged->offset).c_str()));
    return saved(booster.get());
  } catch (const Failure&) {
    return external_failure("XGBoost", XGBGetLastError());
  }
}

predict::LengthFit length_fit(const LengthTraining& training) {
  return [training](
             std::span<const predict::LengthAnswer> answers) -> Result<std::shared_ptr<const predict::LengthTrees>> {
    const auto model = train_length_trees(answers, training);
    if (!model) return std::unexpected(model.error());
    auto trees = predict::LengthTrees::from_xgboost(*model);
    if (!trees) return std::unexpected(trees.error());
    return std::make_shared<const predict::LengthTrees>(std::move(*trees));
  };
}

}  // namespace wattle::learn
