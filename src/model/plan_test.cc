#include "model/plan.h"

#include <gtest/gtest.h>

namespace wattle {
namespace {

PoolWeight of(std::int32_t request_class, std::int32_t pool, double weight) {
  return {ClassId(request_class), PoolId(pool), weight};
}

TEST(WeightsWhereServed, GoToPoolsThatSomebodyServesIn) {
  const std::vector<PoolWeight> wanted{of(0, 0, 0.75), of(0, 1, 0.25), of(1, 1, 1.0), of(2, 3, 0.5), of(3, 4, 1.0)};
  const std::vector<PoolWeight> all{of(0, 0, 0.75), of(0, 1, 0.25), of(1, 1, 1.0), of(2, 3, 0.5), of(3, 4, 1.0)};
  const std::set<PoolId> everywhere{PoolId(0), PoolId(1), PoolId(3), PoolId(4)};
  EXPECT_EQ(weights_where_served(wanted, everywhere), all);
  const std::vector<PoolWeight> some{of(0, 0, 1.0), of(1, 3, 1.0), of(2, 3, 0.5), of(3, 3, 1.0)};
  EXPECT_EQ(weights_where_served(wanted, {PoolId(0), PoolId(3)}), some) << "what is shed stays shed";
  EXPECT_TRUE(weights_where_served(wanted, {}).empty());
}

}  // namespace
}  // namespace wattle
