#include "node/realtime.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace wattle::node {
namespace {

TEST(RealTime, IsTheThreadsOwn) {
  std::thread([] {
    if (!run_in_real_time()) {
      EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "not permitted here, and nothing changed";
      return;
    }
    EXPECT_EQ(::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK, SCHED_RR);
    std::thread([] { EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "what it starts is ordinary"; }).join();
  }).join();
  EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
}

}  // namespace
}  // namespace wattle::node
