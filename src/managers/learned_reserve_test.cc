#include "managers/learned_reserve.h"

#include <gtest/gtest.h>

#include "managers/managers_rig_test.h"

namespace wattle::managers {
namespace {

Instant minute(int m) { return Instant() + Span::s(60 * m); }

class LearnedReserveTest : public testing::Test {
 protected:
  /// So many minutes with 1,000 requests of class 0 in each, of which so many are late.
  void hear(LearnedReserve& reserve, int minutes, int late) {
    for (int m = 0; m < minutes; ++m) {
      TurnedOut fresh;
      fresh.add(ClassId(0), ClassId(0), 1000);
      fresh.add_late(ClassId(0), late);
      reserve.learn(fresh, {}, minute(now_++));
    }
  }

  plan::LoadTable table_ = formula_table();
  PoolMap pools_{table_, 3};
  int now_ = 0;
};

TEST_F(LearnedReserveTest, GrowsWithWhatIsLateAndShrinksWithWhatIsNot) {
  LearnedReserve reserve(table_, pools_, {.gain = 0.3, .late = 0.01, .most = 0.5});
  hear(reserve, 1, 500);
  EXPECT_EQ(reserve.by_pool(), (std::vector{0.0, 0.0, 0.0})) << "nobody knows since when";
  hear(reserve, 10, 50);  // 10 x 0.3 x 0.04
  EXPECT_EQ(reserve.by_pool(), (std::vector{0.12, 0.0, 0.0}));
  hear(reserve, 10, 10);
  EXPECT_EQ(reserve.by_pool()[0], 0.12) << "as many as may be";
  hear(reserve, 20, 0);
  EXPECT_EQ(reserve.by_pool()[0], 0.06);
  hear(reserve, 100, 0);
  EXPECT_EQ(reserve.by_pool()[0], 0.0);
  hear(reserve, 100, 900);
  EXPECT_EQ(reserve.by_pool()[0], 0.5);
}

TEST_F(LearnedReserveTest, WhatNoInstanceServesInTimeIsNoReasonForMore) {
  table_.classes[0].kept_alone = 0.9;
  LearnedReserve reserve(table_, pools_, {.gain = 0.3, .late = 0.01, .most = 0.5});
  hear(reserve, 50, 110);
  EXPECT_EQ(reserve.by_pool()[0], 0.0);
  hear(reserve, 50, 210);
  EXPECT_GT(reserve.by_pool()[0], 0.4);
}

TEST_F(LearnedReserveTest, UnlessAskedForNothingIsKeptFree) {
  LearnedReserve reserve(table_, pools_, {});
  hear(reserve, 50, 1000);
  EXPECT_EQ(reserve.by_pool(), (std::vector{0.0, 0.0, 0.0}));
}

TEST_F(LearnedReserveTest, APoolsClassesCountTogetherAndUnknownOnesNot) {
  const PoolMap one(table_, 1);
  LearnedReserve reserve(table_, one, {.gain = 1.0, .late = 0.01, .most = 0.5});
  TurnedOut fresh;
  fresh.add(ClassId(0), ClassId(1), 900);
  fresh.add(ClassId(2), ClassId(2), 100);
  fresh.add(ClassId(7), ClassId(7), 5000);
  fresh.add_late(ClassId(2), 110);
  fresh.add_late(ClassId(7), 5000);
  reserve.learn(fresh, {}, minute(0));
  reserve.learn(fresh, {}, minute(1));
  EXPECT_EQ(reserve.by_pool(), std::vector{0.1});
  TurnedOut nothing;
  reserve.learn(nothing, {}, minute(2));
  EXPECT_EQ(reserve.by_pool(), std::vector{0.1}) << "nobody finished";
  reserve.learn(fresh, {}, minute(600));
  EXPECT_EQ(reserve.by_pool(), std::vector{0.5}) << "ten minutes at most, which is enough here";
}

TEST_F(LearnedReserveTest, ThePoolsThatServeAClassKeepMoreFreeForIt) {
  LearnedReserve reserve(table_, pools_, {.gain = 1.0, .late = 0.0, .most = 0.5});
  TurnedOut fresh;
  fresh.add(ClassId(0), ClassId(0), 1000);
  fresh.add_late(ClassId(0), 100);
  const std::vector<PoolWeight> weights = {{ClassId(0), PoolId(1), 0.6}, {ClassId(0), PoolId(2), 0.2}};
  reserve.learn(fresh, weights, minute(0));
  reserve.learn(fresh, weights, minute(1));
  EXPECT_EQ(reserve.by_pool(), (std::vector{0.0, 0.1, 0.1})) << "its own has none of its requests";
}

}  // namespace
}  // namespace wattle::managers
