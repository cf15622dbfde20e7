#pragma once
// Grows predict::LengthTrees with XGBoost's C API.
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "predict/length_trees.h"

namespace wattle::learn {

struct LengthTraining {
  double quantile = 0.5;  ///< share of answers that are to be no longer than predicted, in (0, 1)
  int rounds = 80;        ///< at most
  int depth = 5;
  double rate = 0.15;
  std::uint64_t seed = 1;
};

inline constexpr std::size_t kFewestAnswers = 20;

/// XGBoost's model in UBJSON, for LengthTrees::from_xgboost: trees on the absolute error of log(1 + tokens), and as its
/// attribute "offset" what the quantile is above them. Answers are in the order of time: how trees of the first three
/// quarters err over the rest says how many there are to be, and the offset. Deterministic, one thread. Errors: fewer
/// than kFewestAnswers; what XGBoost says.
[[nodiscard]] Result<std::string> train_length_trees(std::span<const predict::LengthAnswer> answers,
                                                     const LengthTraining& training = {});
/// The same, read.
[[nodiscard]] predict::LengthFit length_fit(const LengthTraining& training = {});

}  // namespace wattle::learn
