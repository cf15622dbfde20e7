#pragma once
// Length trees that learn on from own traffic. One mechanism for both drivers; who fits when and where is theirs: the
// simulator after a modelled delay, the gateway on a thread of its own.
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
  std::size_t memory = 4000;  ///< newest answers learned from
  std::size_t fewest = 200;   ///< before the first trees
  std::size_t every = 500;    ///< new answers between two fits
};

struct LengthLearnerCounts {
  std::int64_t answers = 0;
  std::int64_t fits = 0;
  std::int64_t failed = 0;  ///< no trees came of it: the ones before stay
};

/// What it says is a hint: LengthBelief scores it on every answer and lets the constant answer while that is as good.
/// All calls from one thread, or under its lock.
class LengthLearner {
 public:
  /// `first`: trees to begin with; null: none.
  LengthLearner(LengthFit fit, const LengthLearnerOptions& options, std::shared_ptr<const LengthTrees> first = nullptr)
      : fit_(std::move(fit)), options_(options), trees_(std::move(first)) {}

  /// Null: no trees yet.
  [[nodiscard]] const std::shared_ptr<const LengthTrees>& trees() const { return trees_; }
  /// Tokens, at least 1; 0: no trees yet.
  [[nodiscard]] std::int32_t predict(const PromptFeatures& prompt) const { return predict(trees_.get(), prompt); }
  [[nodiscard]] static std::int32_t predict(const LengthTrees* trees, const PromptFeatures& prompt);
  /// An answer of less than a token says nothing.
  void observe(const PromptFeatures& prompt, std::int32_t tokens);
  /// Enough new answers, and none are being fitted?
  [[nodiscard]] bool due() const;
  /// What to give to fitting(); until end_fit() none is due.
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
  bool fitted_ = false;  ///< from own traffic
  bool fitting_ = false;
  LengthLearnerCounts counts_;
};

}  // namespace wattle::predict
