#pragma once
// Trains predict::LengthTrees with XGBoost's C API.
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "predict/length_trees.h"

namespace wattle::learn {

struct LengthTraining {
  double quantile = 0.5;  ///< share of answers that should be no longer than predicted, in (0, 1)
  int rounds = 80;        ///< maximum number of rounds
  int depth = 5;
  double rate = 0.15;
  std::uint64_t seed = 1;
};

inline constexpr std::size_t kFewestAnswers = 20;

/// XGBoost's model in UBJSON, for LengthTrees::from_xgboost: trees for the absolute error of log(1 + tokens), with the
/// distance from them to the quantile in the attribute "offset". Answers must be in order of time: trees trained on the
/// first three quarters and evaluated on the rest determine the number of trees and the offset. Deterministic, one
/// thread. Errors: fewer than kFewestAnswers; XGBoost's.
[[nodiscard]] Result<std::string> train_length_trees(std::span<const predict::LengthAnswer> answers,
                                                     const LengthTraining& training = {});
/// The same, as a function that returns the parsed model.
[[nodiscard]] predict::LengthFit length_fit(const LengthTraining& training = {});

}  // namespace wattle::learn
