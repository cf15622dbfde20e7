#pragma once
// Output lengths learned from own traffic: boosted trees over a prompt's hashed words, grown again every few hundred
// answers, and believed only while they beat the median.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/error.h"
#include "predict/prompt_features.h"

namespace wattle::learn {

struct LengthTreesOptions {
  std::size_t memory = 4000;  ///< last answers learned from
  std::size_t fewest = 200;   ///< before the first trees
  std::size_t every = 500;    ///< new answers between two trainings
  int rounds = 80;
  int depth = 5;
  double rate = 0.15;
  std::uint64_t seed = 1;
};

/// Mean absolute errors over about the last 500 answers, each predicted before it was learned from, tokens.
struct LengthTreesScore {
  std::int64_t scored = 0;
  double trees = 0.0;
  double median = 0.0;
};

/// Deterministic, one thread; learn() takes about a second for a full memory, so a live caller runs it off its loop.
class LengthTrees {
 public:
  explicit LengthTrees(LengthTreesOptions options = {});
  ~LengthTrees();
  LengthTrees(const LengthTrees&) = delete;
  LengthTrees& operator=(const LengthTrees&) = delete;

  /// Expected tokens (about the median); 0: no belief, because nothing was learned or the plain median does as well.
  [[nodiscard]] double predict(const predict::PromptFeatures& prompt) const;
  /// Scores, then remembers. Lengths below 0 count as 0.
  void observe(const predict::PromptFeatures& prompt, std::int32_t tokens);
  /// Have enough answers come since the last training?
  [[nodiscard]] bool due() const;
  /// Trains on what is remembered. Errors: fewer than `fewest`; what XGBoost says.
  Result<void> learn();
  [[nodiscard]] const LengthTreesScore& score() const { return score_; }

 private:
  struct Answer {
    predict::PromptFeatures prompt;
    float log_tokens;
  };
  /// What the trees say, believed or not; 0: none yet.
  [[nodiscard]] double raw(const predict::PromptFeatures& prompt) const;

  LengthTreesOptions options_;
  std::deque<Answer> answers_;
  std::size_t since_learned_ = 0;
  double median_ = 0.0;
  LengthTreesScore score_;
  struct Model;
  std::unique_ptr<Model> model_;
};

}  // namespace wattle::learn
