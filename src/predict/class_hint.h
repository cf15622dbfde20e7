#pragma once
// A classifier of output lengths that is right as often as it is said to be, and errs as a measured one does.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "predict/length_hint.h"

namespace wattle::predict {

/// How often each class is said of each true one: rows are true, each adds up to 1.
class Confusion {
 public:
  /// Right in `accuracy` of all cases, in [0, 1]; else one of the neighbouring classes, either of them as often.
  [[nodiscard]] static Confusion to_neighbours(std::size_t classes, double accuracy);
  /// Errs in the proportions of the BERT proxy model's three classes (LLM-serving-with-proxy-models, commit 4b86686:
  /// 85,482 LMSYS prompts answered by vicuna-13b; short to 141 tokens, medium to 503; right in 80.6 %, within one class
  /// in 99.7 %), each row's errors scaled alike to the accuracy wanted. Rows of few requests err more, and as they did.
  [[nodiscard]] static Confusion as_measured(double accuracy);
  [[nodiscard]] static double measured_accuracy();

  [[nodiscard]] std::size_t classes() const { return rows_.size(); }
  [[nodiscard]] double share(std::size_t truth, std::size_t said) const { return rows_[truth][said]; }
  /// One draw.
  [[nodiscard]] std::size_t draw(std::size_t truth, RandomStream& random) const;

 private:
  std::vector<std::vector<double>> rows_;
};

/// Predicts the class of an answer and says the length in its middle, so that a Classifier with the same borders puts
/// the request there.
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
