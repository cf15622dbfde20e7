#include "base/quantile.h"

#include <gtest/gtest.h>

namespace wattle {
namespace {

TEST(Quantile, LiesBetweenTheNearestRanks) {
  EXPECT_EQ(quantile({}, 0.5), 0.0);
  EXPECT_EQ(quantile({7.0}, 0.9), 7.0);
  EXPECT_EQ(quantile({3.0, 1.0, 2.0}, 0.5), 2.0);
  EXPECT_EQ(quantile({4.0, 1.0, 2.0, 3.0}, 0.5), 2.5);
  EXPECT_EQ(quantile({1.0, 2.0, 3.0}, 1.0), 3.0);
  EXPECT_DOUBLE_EQ(quantile({0.0, 10.0, 20.0, 30.0}, 0.9), 27.0);
}

}  // namespace
}  // namespace wattle
