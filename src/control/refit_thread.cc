#include "control/refit_thread.h"

#include <exception>

namespace wattle::control {

namespace {

Result<std::shared_ptr<const LatencyModel>> fit(const predict::LatencyRefit& refit,
                                                const std::vector<predict::StepSample>& samples) {
  try {
    return refit(samples);
  } catch (const std::exception& e) {
    return external_failure("refit", e.what());
  } catch (...) {
    return external_failure("refit", "something that is no std::exception");
  }
}

}  // namespace

RefitThread::RefitThread() : thread_([this] { run(); }) {}

RefitThread::~RefitThread() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void RefitThread::post(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples) {
  {
    const std::lock_guard guard(mutex_);
    jobs_.push_back({&learner, std::move(samples), nullptr});
  }
  wake_.notify_one();
}

void RefitThread::discard(std::shared_ptr<const LatencyModel> model) {
  if (!model) return;
  {
    const std::lock_guard guard(mutex_);
    jobs_.push_back({nullptr, {}, std::move(model)});
  }
  wake_.notify_one();
}

std::vector<RefitThread::Done> RefitThread::take() {
  const std::lock_guard guard(mutex_);
  return std::exchange(done_, {});
}

void RefitThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (job.learner != nullptr) {
      Done done{job.learner, fit(job.learner->refitting(), job.samples)};
      lock.lock();
      done_.push_back(std::move(done));
      continue;
    }
    job.garbage.reset();
    lock.lock();
  }
}

}  // namespace wattle::control
