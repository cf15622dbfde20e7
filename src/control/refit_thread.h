#pragma once
// Refits predictors beside the deciding thread.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "predict/online/online_latency.h"

namespace wattle::control {

/// One thread, one fit at a time, first come first served. post() and take() are the deciding thread's and return at
/// once; what take() hands back it gives to OnlineLatency::end_refit. Exceptions end in an error value here.
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
  /// Frees a model there, where time does not matter.
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
