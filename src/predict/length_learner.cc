#include "predict/length_learner.h"

#include <algorithm>
#include <cmath>

namespace wattle::predict {

std::int32_t LengthLearner::predict(const LengthTrees* trees, const PromptFeatures& prompt) {
  if (trees == nullptr) return 0;
  return std::max(static_cast<std::int32_t>(std::lround(trees->tokens(prompt))), 1);
}

void LengthLearner::observe(const PromptFeatures& prompt, std::int32_t tokens) {
  if (tokens < 1) return;
  answers_.push_back({prompt, tokens});
  if (answers_.size() > options_.memory) answers_.pop_front();
  ++since_fit_;
  ++counts_.answers;
}

bool LengthLearner::due() const {
  return !fitting_ && answers_.size() >= options_.fewest && (!fitted_ || since_fit_ >= options_.every);
}

std::vector<LengthAnswer> LengthLearner::begin_fit() {
  fitting_ = true;
  fitted_ = true;
  since_fit_ = 0;
  return {answers_.begin(), answers_.end()};
}

void LengthLearner::end_fit(Result<std::shared_ptr<const LengthTrees>> trees) {
  fitting_ = false;
  if (trees) {
    trees_ = std::move(*trees);
    ++counts_.fits;
  } else {
    ++counts_.failed;
  }
}

}  // namespace wattle::predict
