#include "net/loop.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <utility>

#include "base/check.h"
#include "net/clock.h"
#include "net/faults.h"
#include "net/loop_impl.h"

namespace wattle::net {

namespace {

constexpr int kRoundsMax = 16;  ///< of tasks that make tasks, before sockets are looked at again

thread_local const Loop::Impl* this_threads = nullptr;

/// A callback that throws is over; those of others go on.
template <typename F>
void guarded(const char* where, F&& call) {
  try {
    call();
  } catch (...) {
    count_fault(where);
  }
}

}  // namespace

Loop::Impl::Impl(Loop& own)
    : loop(own), epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  const bool made = epoll_ >= 0 && wake_ >= 0 && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) == 0;
  WATTLE_CHECK(made, "a process has descriptors for its event loops");
}

Loop::Impl::~Impl() {
  drop_tasks();
  ::close(wake_);
  ::close(epoll_);
}

void Loop::Impl::drop_tasks() {
  for (;;) {  // what goes may post
    std::vector<Task> posted;
    {
      const std::lock_guard lock(mutex_);
      posted.swap(posted_);
    }
    const auto own = std::exchange(own_, {});
    const auto sending = std::exchange(before_sending_, {});
    const auto deferred = std::exchange(deferred_, {});
    const auto timers = std::exchange(timers_, {});
    if (posted.empty() && own.empty() && sending.empty() && deferred.empty() && timers.empty()) return;
  }
}

bool Loop::Impl::in_this_thread() const { return this_threads == this; }

void Loop::Impl::stop() {
  stopping_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
}

void Loop::Impl::post(Task task) {
  if (in_this_thread()) {
    own_.push_back(std::move(task));
    return;
  }
  if (stopping_) return;
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
    any_posted_ = true;
  }
  if (!sleeping_.exchange(false)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);
}

void Loop::Impl::start_timer(Span delay, Span period, Task task) {
  const Instant due = steady_now() + delay;
  if (in_this_thread()) return add_timer(due, period, std::move(task));
  post([this, due, period, timed = std::move(task)]() mutable { add_timer(due, period, std::move(timed)); });
}

void Loop::Impl::add_timer(Instant due, Span period, Task task) {
  timers_.push_back({due, timer_number_++, period, std::move(task)});
  std::ranges::push_heap(timers_, later);
}

void Loop::Impl::run_timers() {
  const std::uint64_t newer = timer_number_;  // those come in the next turn
  while (!timers_.empty() && timers_.front().due <= now_ && timers_.front().number < newer) {
    std::ranges::pop_heap(timers_, later);
    Timer timer = std::move(timers_.back());
    timers_.pop_back();
    guarded("a timer", timer.task);
    if (timer.period > Span()) add_timer(steady_now() + timer.period, timer.period, std::move(timer.task));
  }
}

bool Loop::Impl::add(int descriptor, Watcher& watcher) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;
  event.data.ptr = &watcher;
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void Loop::Impl::forget(const Watcher& watcher) {
  for (int i = next_; i < found_; ++i) {
    auto& event = events_[static_cast<std::size_t>(i)];
    if (event.data.ptr == &watcher) event.data.ptr = nullptr;
  }
}

/// False: there was nothing.
bool Loop::Impl::run_ready() {
  running_.swap(own_);
  if (any_posted_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    any_posted_ = false;
    std::ranges::move(posted_, std::back_inserter(running_));
    posted_.clear();
  }
  const bool any = !running_.empty() || !none_deferred();
  ending_.swap(deferred_);
  for (Task& task : running_) {
    if (stopping_) break;
    guarded("an event loop", task);
    task = nullptr;
  }
  running_.clear();
  const auto end_turn = [](std::vector<std::shared_ptr<Deferred>>& all) {
    for (auto& who : all) {
      guarded("an event loop", [&who] { who->on_turn_end(); });
      who = nullptr;
    }
    all.clear();
  };
  ending_first_.swap(before_sending_);  // with what the tasks have just brought
  end_turn(ending_first_);
  end_turn(ending_);
  return any;
}

void Loop::Impl::wait() {
  sleeping_ = own_.empty() && none_deferred();
  // One that posts sets any_posted_ first and looks at sleeping_ then: one of the two of us sees the other.
  if (any_posted_) sleeping_ = false;
  timespec most{};
  const timespec* timeout = &most;
  if (sleeping_ && timers_.empty()) timeout = nullptr;
  if (sleeping_ && !timers_.empty()) {
    constexpr std::int64_t kNsPerS = 1'000'000'000;
    const std::int64_t ns = std::max(timers_.front().due - steady_now(), Span()).ns();
    most = {ns / kNsPerS, ns % kNsPerS};
  }
  next_ = 0;
  found_ = ::epoll_pwait2(epoll_, events_.data(), static_cast<int>(events_.size()), timeout, nullptr);
  if (found_ < 0 && errno == ENOSYS) {  // before Linux 5.11
    const auto ms =
        timeout == nullptr ? -1 : static_cast<int>(most.tv_sec * 1000 + (most.tv_nsec + 999'999) / 1'000'000);
    found_ = ::epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), ms);
  }
  found_ = std::max(found_, 0);
  sleeping_ = false;
}

void Loop::Impl::dispatch() {
  while (next_ < found_) {
    const epoll_event& event = events_[static_cast<std::size_t>(next_++)];
    auto* const watcher = static_cast<Watcher*>(event.data.ptr);
    if (watcher != nullptr) guarded("an event loop", [&] { watcher->on_events(event.events); });
  }
}

void Loop::Impl::run() {
  this_threads = this;
  ::prctl(PR_SET_TIMERSLACK, 1);  // ns: timers are for engines' steps, too
  while (!stopping_) {
    now_ = steady_now();
    dispatch();
    if (!timers_.empty()) run_timers();
    for (int round = 0; round < kRoundsMax && run_ready(); ++round) {
    }
    if (!stopping_) wait();
  }
  while (!none_deferred()) (void)run_ready();  // no tasks any more
}

Loop::Loop() : impl_(std::make_unique<Impl>(*this)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

Loop::~Loop() { stop(); }

void Loop::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->stop();
  impl_->thread.join();
  impl_->drop_tasks();
}

void Loop::post(std::function<void()> task) { impl_->post(std::move(task)); }

void Loop::run(const std::function<void()>& task) {
  std::promise<void> done;
  post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

void Loop::after(Span delay, std::function<void()> task) { impl_->start_timer(delay, Span(), std::move(task)); }

void Loop::every(Span period, std::function<void()> task) { impl_->start_timer(period, period, std::move(task)); }

bool Loop::in_this_thread() const { return impl_->in_this_thread(); }

Loop* Loop::current() { return this_threads == nullptr ? nullptr : &this_threads->loop; }

void Loop::at_turn_end(std::shared_ptr<Deferred> who) { impl_->defer(std::move(who)); }
void Loop::before_sending(std::shared_ptr<Deferred> who) { impl_->before_sending(std::move(who)); }

LoopPool::LoopPool(int threads) {
  for (int i = 0; i < threads; ++i) loops_.push_back(std::make_unique<Loop>());
}

void LoopPool::stop() {
  for (auto& loop : loops_) loop->stop();
}

}  // namespace wattle::net
