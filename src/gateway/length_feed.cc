#include "gateway/length_feed.h"

#include <utility>

#include "net/log.h"

namespace wattle::gateway {

LengthFeed::LengthFeed(std::shared_ptr<predict::LengthLearner> learner)
    : learner_(std::move(learner)), thread_([this] { run(); }) {}

LengthFeed::~LengthFeed() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::int32_t LengthFeed::predict(const predict::PromptFeatures& prompt) const {
  std::shared_ptr<const predict::LengthTrees> trees;
  {
    const std::lock_guard guard(mutex_);
    trees = learner_->trees();
  }
  return predict::LengthLearner::predict(trees.get(), prompt);
}

void LengthFeed::finished(std::unique_ptr<predict::PromptFeatures> prompt, std::int32_t tokens) {
  bool due = false;
  {
    const std::lock_guard guard(mutex_);
    learner_->observe(*prompt, tokens);
    due = learner_->due();
  }
  if (due) wake_.notify_one();
}

predict::LengthLearnerCounts LengthFeed::counts() const {
  const std::lock_guard guard(mutex_);
  return learner_->counts();
}

void LengthFeed::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || learner_->due(); });
    if (stop_) return;
    const auto answers = learner_->begin_fit();
    lock.unlock();
    auto trees = learner_->fitting()(answers);
    if (!trees) net::log_line(net::LogLevel::Warning, "no length trees", {{"error", trees.error().message()}});
    lock.lock();
    learner_->end_fit(std::move(trees));
  }
}

}  // namespace wattle::gateway
