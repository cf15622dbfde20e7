#include "control/pool_router.h"

#include <gtest/gtest.h>

#include <vector>

namespace wattle::control {
namespace {

/// Two sizes of two tiers with a pool each: loose 0 and 2, strict 1 and 3.
std::vector<PoolWeight> own_pools() {
  std::vector<PoolWeight> weights;
  for (std::int32_t i = 0; i < 4; ++i) weights.push_back({ClassId(i), PoolId(i), 1.0});
  return weights;
}

std::vector<PoolId> fit(PoolRouter& router, std::int32_t request_class) {
  const auto order = router.next(ClassId(request_class));
  return {order.pools.begin(), order.pools.begin() + static_cast<std::ptrdiff_t>(order.fit)};
}

TEST(PoolRouter, OverflowOfATierGoesToStricterPoolsOnly) {
  PoolRouter router({}, 4, 2);
  router.reroute(own_pools(), 4);
  EXPECT_EQ(fit(router, 0), (std::vector{PoolId(0), PoolId(1), PoolId(2), PoolId(3)}));
  EXPECT_EQ(fit(router, 1), (std::vector{PoolId(1), PoolId(3)})) << "pool 2 is larger, and looser";
  EXPECT_EQ(router.next(ClassId(1)).pools.size(), 4U) << "for want of any other it goes there all the same";
  const auto larger = router.larger(PoolId(1));
  EXPECT_EQ(std::vector(larger.begin(), larger.end()), (std::vector{PoolId(1), PoolId(3)}));
}

TEST(PoolRouter, WithoutTiersEveryLargerPoolWillDo) {
  PoolRouter router({}, 4);
  router.reroute(own_pools(), 4);
  EXPECT_EQ(fit(router, 1), (std::vector{PoolId(1), PoolId(2), PoolId(3)}));
}

}  // namespace
}  // namespace wattle::control
