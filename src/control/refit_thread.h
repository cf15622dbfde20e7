#pragma once
// Refits predictors in parallel with the deciding thread.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "predict/online/online_latency.h"

namespace wattle::control {

/// One thread, one fit at a time, first come first served. The deciding thread calls post() and take(), which return at
/// once, and passes the results of take() to OnlineLatency::end_refit. Exceptions become error values.
class RefitThread {
 public:
  struct Done {
    predict::OnlineLatency* learner = nullptr;
    Result<std::shared_ptr<const LatencyModel>> model;
  };

  RefitThread();
  /// Waits for the fit in progress, drops the rest.
  ~RefitThread();
  RefitThread(const RefitThread&) = delete;
  RefitThread& operator=(const RefitThread&) = delete;

  /// `learner` outlives this object.
  void post(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples);
  [[nodiscard]] std::vector<Done> take();
  /// Frees a model on that thread, where time does not matter.
  void discard(std::shared_ptr<const LatencyModel> model);

 private:
  struct Job {
    predict::OnlineLatency* learner = nullptr;
    std::vector<predict::StepSample> samples;
    std::shared_ptr<const LatencyModel> garbage;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::vector<Done> done_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace wattle::control
