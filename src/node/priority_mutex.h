#pragma once
// A mutex between real-time threads (realtime.h) and ordinary ones: its holder runs at the priority of the thread that
// waits for it. With std::mutex, an ordinary thread that is preempted while it holds one would delay a clock for as
// long as the machine is busy.
#include <pthread.h>
#include <time.h>

#include <mutex>

#include "net/clock.h"
#include "units/time.h"

namespace wattle::node {

class PriorityMutex {
 public:
  PriorityMutex() {
    pthread_mutexattr_t inherits{};
    ::pthread_mutexattr_init(&inherits);
    ::pthread_mutexattr_setprotocol(&inherits, PTHREAD_PRIO_INHERIT);
    ::pthread_mutex_init(&mutex_, &inherits);
    ::pthread_mutexattr_destroy(&inherits);
  }
  ~PriorityMutex() { ::pthread_mutex_destroy(&mutex_); }
  PriorityMutex(const PriorityMutex&) = delete;
  PriorityMutex& operator=(const PriorityMutex&) = delete;

  void lock() { ::pthread_mutex_lock(&mutex_); }
  void unlock() { ::pthread_mutex_unlock(&mutex_); }
  [[nodiscard]] pthread_mutex_t* native() { return &mutex_; }

 private:
  pthread_mutex_t mutex_{};
};

/// Needed because std::condition_variable_any has its own mutex, without priority inheritance.
class PriorityCondition {
 public:
  PriorityCondition() {
    pthread_condattr_t steady{};
    ::pthread_condattr_init(&steady);
    ::pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    ::pthread_cond_init(&condition_, &steady);
    ::pthread_condattr_destroy(&steady);
  }
  ~PriorityCondition() { ::pthread_cond_destroy(&condition_); }
  PriorityCondition(const PriorityCondition&) = delete;
  PriorityCondition& operator=(const PriorityCondition&) = delete;

  void notify_one() { ::pthread_cond_signal(&condition_); }
  void notify_all() { ::pthread_cond_broadcast(&condition_); }
  template <typename Holds>
  void wait(std::unique_lock<PriorityMutex>& lock, const Holds& holds) {
    while (!holds()) ::pthread_cond_wait(&condition_, lock.mutex()->native());
  }
  /// False: the time is over, and the condition does not hold.
  template <typename Holds>
  bool wait_for(std::unique_lock<PriorityMutex>& lock, Span most, const Holds& holds) {
    const timespec until = net::monotonic_after(most);
    while (!holds()) {
      if (::pthread_cond_timedwait(&condition_, lock.mutex()->native(), &until) != 0) return holds();
    }
    return true;
  }

 private:
  pthread_cond_t condition_{};
};

}  // namespace wattle::node
