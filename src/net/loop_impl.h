#pragma once
// Private to net/: the epoll half of Loop.
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "net/loop.h"

namespace wattle::net {

/// Owner of a descriptor in a loop's epoll set: edge-triggered, for both directions, as long as it is open. Readiness
/// is remembered (Socket), so that a request costs no epoll_ctl and no read without data.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void on_events(std::uint32_t events) = 0;  ///< EPOLLIN and so on; may destroy this object
};

struct Loop::Impl {
  explicit Impl(Loop& own);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void run();  ///< until stop()
  void stop();
  /// Drops posted tasks that have not run; after the thread has ended.
  void drop_tasks();

  // From any thread.
  [[nodiscard]] bool in_this_thread() const;
  void post(std::function<void()> task);
  void start_timer(Span delay, Span period, std::function<void()> task);

  // On the loop's thread.
  [[nodiscard]] bool add(int descriptor, Watcher& watcher);
  /// It gets no more events, including those already found in this turn. Its descriptor is closed next.
  void forget(const Watcher& watcher);
  void defer(std::shared_ptr<Deferred> who) { deferred_.push_back(std::move(who)); }
  void before_sending(std::shared_ptr<Deferred> who) { before_sending_.push_back(std::move(who)); }
  /// The time at which this turn began: precise enough for deadlines, and free.
  [[nodiscard]] Instant now() const { return now_; }

  Loop& loop;
  std::thread thread;
  /// Data just read from a socket, until it has been handled: one buffer per loop instead of one per connection. Views
  /// of it must not be kept beyond the turn.
  static constexpr std::size_t kScratchBytes = 64 * 1024;
  std::string plain;  ///< the same after TLS decryption
  std::unique_ptr<char[]> scratch = std::make_unique_for_overwrite<char[]>(kScratchBytes);

 private:
  using Task = std::function<void()>;
  struct Timer {
    Instant due;
    std::uint64_t number;  ///< if two are due at once, the older one comes first
    Span period;           ///< zero: once
    Task task;
  };
  static bool later(const Timer& a, const Timer& b) { return a.due != b.due ? a.due > b.due : a.number > b.number; }
  void add_timer(Instant due, Span period, Task task);
  void run_timers();
  [[nodiscard]] bool run_ready();
  [[nodiscard]] bool none_deferred() const { return before_sending_.empty() && deferred_.empty(); }
  void wait();
  void dispatch();

  int epoll_ = -1;
  int wake_ = -1;  ///< eventfd, edge-triggered: it need not be read
  std::atomic<bool> stopping_{false};
  std::atomic<bool> sleeping_{false};  ///< or about to: a thread that posts has to wake it
  std::atomic<bool> any_posted_{false};
  std::mutex mutex_;  ///< guards posted_
  std::vector<Task> posted_;

  // On the loop's thread only.
  Instant now_;
  std::vector<Task> own_;  ///< posted from this thread
  std::vector<Task> running_;
  std::vector<std::shared_ptr<Deferred>> deferred_;
  std::vector<std::shared_ptr<Deferred>> ending_;
  std::vector<std::shared_ptr<Deferred>> before_sending_;
  std::vector<std::shared_ptr<Deferred>> ending_first_;
  std::vector<Timer> timers_;  ///< a heap
  std::uint64_t timer_number_ = 0;
  std::array<epoll_event, 128> events_{};
  int found_ = 0;
  int next_ = 0;  ///< of events_, to be dispatched
};

}  // namespace wattle::net
