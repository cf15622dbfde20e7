#include "engine/expert_use.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace wattle::engine {
namespace {

LlmSpec mixture(double skew) {
  LlmSpec llm;
  llm.experts = 128;
  llm.experts_per_token = 8;
  llm.expert_skew = skew;
  return llm;
}

TEST(ExpertUse, OneTokenTouchesWhatItPicks) {
  for (const double skew : {0.0, 0.5, 1.0, 3.0}) {
    EXPECT_NEAR(ExpertUse(mixture(skew), 1).touched(1.0), 8.0, 1e-9) << skew;
  }
}

TEST(ExpertUse, ManyTokensTouchAllAndUnevenRoutingFewer) {
  const double even = ExpertUse(mixture(0.0), 1).touched(16.0);
  const double uneven = ExpertUse(mixture(1.0), 1).touched(16.0);
  EXPECT_NEAR(even, 128.0 * (1.0 - std::pow(1.0 - 8.0 / 128.0, 16.0)), 1e-9);
  EXPECT_LT(uneven, 0.8 * even);
  EXPECT_NEAR(ExpertUse(mixture(0.0), 1).touched(10'000.0), 128.0, 1e-6);
}

TEST(ExpertUse, GroupsAreEvenOnlyWithManyTokensAndEvenRouting) {
  EXPECT_EQ(ExpertUse(mixture(1.0), 1).imbalance(4.0), 1.0);
  EXPECT_GT(ExpertUse(mixture(0.0), 8).imbalance(4.0), 1.5);
  EXPECT_LT(ExpertUse(mixture(0.0), 8).imbalance(1e6), 1.01);
  EXPECT_GT(ExpertUse(mixture(1.0), 8).imbalance(1e6), 1.5) << "the most popular expert's group";
}

RC_GTEST_PROP(ExpertUse, TouchedGrowsWithTokensAndImbalanceIsAtMostTheGroups, ()) {
  const double skew = *rc::gen::inRange(0, 300) / 100.0;
  const int groups = 1 << *rc::gen::inRange(0, 6);
  const ExpertUse use(mixture(skew), groups);
  const int tokens = *rc::gen::inRange(1, 5000);
  RC_ASSERT(use.touched(tokens + 1) >= use.touched(tokens));
  RC_ASSERT(use.touched(tokens) <= 128.0 + 1e-9);
  RC_ASSERT(use.imbalance(tokens) >= 1.0 && use.imbalance(tokens) <= groups);
}

}  // namespace
}  // namespace wattle::engine
