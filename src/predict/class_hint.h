#pragma once
// A classifier of output lengths with a stated accuracy and the errors of a measured one.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "predict/length_hint.h"

namespace wattle::predict {

/// Probability of each predicted class, given the true one (by row; rows sum to 1).
class Confusion {
 public:
  /// Right with probability `accuracy`, in [0, 1]; otherwise a neighbouring class, each equally likely.
  [[nodiscard]] static Confusion to_neighbours(std::size_t classes, double accuracy);
  /// Errors in the proportions of the BERT proxy model's three classes (LLM-serving-with-proxy-models, commit 4b86686:
  /// 85,482 LMSYS prompts answered by vicuna-13b; short up to 141 tokens, medium up to 503; right in 80.6 %, within one
  /// class in 99.7 %), with each row's errors scaled by the same factor to reach the accuracy. Rare classes keep their
  /// higher error rates.
  [[nodiscard]] static Confusion as_measured(double accuracy);
  [[nodiscard]] static double measured_accuracy();

  [[nodiscard]] std::size_t classes() const { return rows_.size(); }
  [[nodiscard]] double share(std::size_t truth, std::size_t said) const { return rows_[truth][said]; }
  /// Draws a predicted class.
  [[nodiscard]] std::size_t draw(std::size_t truth, RandomStream& random) const;

 private:
  std::vector<std::vector<double>> rows_;
};

/// Predicts the class of an answer and returns a length in its middle, so that a Classifier with the same borders
/// assigns the request to that class.
class ConfusedClasses final : public LengthHint {
 public:
  /// `below`: the borders of output lengths, ascending, one less than the confusion's classes.
  ConfusedClasses(std::vector<std::int32_t> below, Confusion confusion, std::uint64_t seed);

  std::int32_t predict(std::int32_t true_tokens, std::int32_t max_tokens) override;

 private:
  std::vector<std::int32_t> below_;
  std::vector<std::int32_t> middles_;
  Confusion confusion_;
  RandomStream random_;
};

}  // namespace wattle::predict
