#pragma once
// Output lengths learned from what the gateway serves: predicted and learned of on the relays' threads, fitted on one
// of its own.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "predict/length_learner.h"

namespace wattle::gateway {

/// Keeps features and lengths of the newest answers in memory, no text and nothing on disk.
class LengthFeed {
 public:
  explicit LengthFeed(std::shared_ptr<predict::LengthLearner> learner);
  /// Waits for the fit in progress.
  ~LengthFeed();
  LengthFeed(const LengthFeed&) = delete;
  LengthFeed& operator=(const LengthFeed&) = delete;

  /// Tokens; 0: no belief yet. Any thread, as the next two.
  [[nodiscard]] std::int32_t predict(const predict::PromptFeatures& prompt) const;
  void finished(std::unique_ptr<predict::PromptFeatures> prompt, std::int32_t tokens);
  [[nodiscard]] predict::LengthLearnerCounts counts() const;

 private:
  void run();

  std::shared_ptr<predict::LengthLearner> learner_;
  mutable std::mutex mutex_;  ///< guards it; never held while trees are grown or asked
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace wattle::gateway
