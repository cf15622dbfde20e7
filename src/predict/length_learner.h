#pragma once
// Length trees that keep learning from served requests. Both drivers use it and decide when and where to fit: the
// simulator after a modelled delay, the gateway on a separate thread.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "predict/length_trees.h"

namespace wattle::predict {

struct LengthLearnerOptions {
  std::size_t memory = 4000;  ///< number of most recent answers to learn from
  std::size_t fewest = 200;   ///< answers before the first trees
  std::size_t every = 500;    ///< number of new answers between two fits
};

struct LengthLearnerCounts {
  std::int64_t answers = 0;
  std::int64_t fits = 0;
  std::int64_t failed = 0;  ///< fits without a result; the previous trees stay
};

/// Its predictions are hints: LengthBelief scores them on every answer and uses the constant while that is as good. All
/// calls from one thread, or under its lock.
class LengthLearner {
 public:
  /// `first`: initial trees; null: none.
  LengthLearner(LengthFit fit, const LengthLearnerOptions& options, std::shared_ptr<const LengthTrees> first = nullptr)
      : fit_(std::move(fit)), options_(options), trees_(std::move(first)) {}

  /// Null: no trees yet.
  [[nodiscard]] const std::shared_ptr<const LengthTrees>& trees() const { return trees_; }
  /// Tokens, at least 1; 0: no trees yet.
  [[nodiscard]] std::int32_t predict(const PromptFeatures& prompt) const { return predict(trees_.get(), prompt); }
  [[nodiscard]] static std::int32_t predict(const LengthTrees* trees, const PromptFeatures& prompt);
  /// Answers with less than one token are ignored.
  void observe(const PromptFeatures& prompt, std::int32_t tokens);
  /// True if there are enough new answers and no fit is in progress.
  [[nodiscard]] bool due() const;
  /// The input for fitting(); no fit is due until end_fit().
  [[nodiscard]] std::vector<LengthAnswer> begin_fit();
  [[nodiscard]] const LengthFit& fitting() const { return fit_; }
  void end_fit(Result<std::shared_ptr<const LengthTrees>> trees);
  [[nodiscard]] const LengthLearnerCounts& counts() const { return counts_; }

 private:
  LengthFit fit_;
  LengthLearnerOptions options_;
  std::shared_ptr<const LengthTrees> trees_;
  std::deque<LengthAnswer> answers_;
  std::size_t since_fit_ = 0;
  bool fitted_ = false;  ///< at least once, from served requests
  bool fitting_ = false;
  LengthLearnerCounts counts_;
};

}  // namespace wattle::predict
