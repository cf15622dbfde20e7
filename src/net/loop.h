#pragma once
// Event loops: one thread, one loop. Everything that belongs to a loop is touched on its thread only, so the data plane
// needs no locks.
#include <functional>
#include <memory>
#include <vector>

#include "units/time.h"

namespace wattle::net {

/// Called once more before a loop polls for events again.
class Deferred {
 public:
  virtual ~Deferred() = default;
  virtual void on_turn_end() = 0;
};

class Loop {
 public:
  Loop();
  ~Loop();  ///< stops and joins
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Posts `task` to the loop's thread. From any thread; dropped if the loop has stopped.
  void post(std::function<void()> task);
  /// Runs `task` on the loop's thread and returns once it has run. From any other thread, before stop().
  void run(const std::function<void()>& task);
  /// Runs `task` once on the loop's thread, no earlier than `delay` from now. From any thread.
  void after(Span delay, std::function<void()> task);
  /// Runs `task` on the loop's thread every `period` until the loop stops. From any thread.
  void every(Span period, std::function<void()> task);
  [[nodiscard]] bool in_this_thread() const;
  /// The loop whose thread this is; null: not a loop's thread.
  [[nodiscard]] static Loop* current();
  /// Calls back after the events of this turn have been handled, even if the loop stops. On its thread only.
  void at_turn_end(std::shared_ptr<Deferred> who);
  /// The same, before the callbacks of at_turn_end() and before the bytes written in this turn are sent.
  void before_sending(std::shared_ptr<Deferred> who);
  /// Stops the loop and joins its thread; posted tasks that have not run are dropped. Not from the loop's own thread.
  void stop();

  struct Impl;
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// The worker threads of one process plane.
class LoopPool {
 public:
  explicit LoopPool(int threads);
  [[nodiscard]] int size() const { return static_cast<int>(loops_.size()); }
  [[nodiscard]] Loop& at(int i) { return *loops_[static_cast<std::size_t>(i)]; }
  void stop();

 private:
  std::vector<std::unique_ptr<Loop>> loops_;
};

}  // namespace wattle::net
