#include "node/realtime.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "net/await_test.h"
#include "node/priority_mutex.h"

namespace wattle::node {
namespace {

TEST(RealTime, IsTheThreadsOwn) {
  std::thread([] {
    if (const RealTime answer = run_in_real_time(1); answer != RealTime::Granted) {
      EXPECT_NE(std::string_view(text_of(answer)), text_of(RealTime::Granted));
      EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "not permitted here, and nothing changed";
      return;
    }
    EXPECT_EQ(::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, SCHED_RR);
    std::thread([] { EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "what it starts is ordinary"; }).join();
  }).join();
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
}

/// The kernel's number: below 0 for real-time threads.
int priority_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  std::size_t at = text.rfind(") ") + 2;
  for (int field = 3; field < 18; ++field) at = text.find(' ', at) + 1;
  return std::stoi(text.substr(at));
}

TEST(PriorityMutex, WhoHoldsItRunsAsWhoWaitsForIt) {
  PriorityMutex mutex;
  std::atomic<pid_t> holder{0};
  std::atomic<bool> let_go{false};
  std::atomic<int> waiter{0};
  std::atomic<bool> has_it{false};
  std::thread holds([&] {
    const std::lock_guard lock(mutex);
    holder = ::gettid();
    await([&] { return let_go.load(); });
  });
  await([&] { return holder != 0; });
  EXPECT_GE(priority_of(holder), 0);
  std::thread waits([&] {
    const bool granted = run_in_real_time() == RealTime::Granted;
    waiter = granted ? 1 : 2;
    const std::lock_guard lock(mutex);
    has_it = true;
  });
  await([&] { return waiter != 0; });
  if (waiter == 1) {  // else there is nothing to inherit
    for (int i = 0; i < 10'000 && priority_of(holder) >= 0; ++i) ::usleep(500);
    EXPECT_LT(priority_of(holder), 0);
  }
  EXPECT_FALSE(has_it);
  let_go = true;
  holds.join();
  waits.join();
  EXPECT_TRUE(has_it);
}

TEST(PriorityCondition, WaitsForWhatIsSaidAndForNoLongerThanAsked) {
  PriorityMutex mutex;
  PriorityCondition condition;
  bool said = false;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(condition.wait_for(lock, Span::ms(1), [&] { return said; }));
  std::thread says([&] {
    {
      const std::lock_guard guard(mutex);
      said = true;
    }
    condition.notify_one();
  });
  condition.wait(lock, [&] { return said; });
  EXPECT_TRUE(condition.wait_for(lock, Span::s(1000), [&] { return said; }));
  lock.unlock();
  says.join();
}

}  // namespace
}  // namespace wattle::node
