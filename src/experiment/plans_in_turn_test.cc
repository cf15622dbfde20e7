#include "experiment/plans_in_turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace wattle::experiment {
namespace {

/// Counts those inside plan() at once.
struct Planner final : policy::ScalingPolicy {
  Plan plan(const policy::ScalingView&) override {
    if (++inside > 1) overlapped = true;
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    --inside;
    return {};
  }
  static inline std::atomic<int> inside = 0;
  static inline std::atomic<bool> overlapped = false;
};

TEST(PlansInTurn, PlannersOfTwoRunsAreAskedOneAtATime) {
  const auto run = [] {
    PlansInTurn planner(std::make_shared<Planner>());
    for (int i = 0; i < 1000; ++i) planner.plan({});
  };
  auto beside = std::async(std::launch::async, run);
  run();
  beside.get();
  EXPECT_FALSE(Planner::overlapped);
}

}  // namespace
}  // namespace wattle::experiment
