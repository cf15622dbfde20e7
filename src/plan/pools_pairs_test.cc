// Workers of two engines, as P/D pairs are.
#include <gtest/gtest.h>

#include "plan/pools_check.h"
#include "plan/test_pools.h"

namespace wattle::plan {
namespace {

using testing::small_problem;
using testing::workers_in;

PoolsPlan sound_plan(const PoolsProblem& problem) {
  const auto plan = plan_pools(problem, {});
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : plan.error().message());
  for (const std::string& fault : check_pools(problem, {}, *plan)) ADD_FAILURE() << fault;
  return *plan;
}

TEST(PoolsPairs, APairOverTwoKindsTakesBoth) {
  const PoolsPlan plan =
      sound_plan(small_problem({{{2, 4}, 700, 200, 10.0}}, 25.0, {{{16, 8}, 100.0}, {{16, 16}, 200.0}}));
  ASSERT_EQ(plan.pools.size(), 2U);  // three pairs: two where the second kind has 8, one where it has 16
  EXPECT_EQ(plan.pools[0].workers, 2);
  EXPECT_EQ(plan.pools[1].workers, 1);
}

TEST(PoolsPairs, APairOfOneKindMayStandOnTwoNodes) {
  PoolsProblem problem = small_problem({{{8}, 700, 200, 10.0}}, 9.0, {{{8}, 100.0}});
  problem.sites[0].nodes = {{4, 4}};
  EXPECT_EQ(workers_in(sound_plan(problem)), 0) << "no node has eight";
  problem.modes[0].engines = {{4}, {4}};
  const PoolsPlan apart = sound_plan(problem);
  EXPECT_EQ(workers_in(apart), 1);
  problem.modes[0].engines = {{6}, {2}};
  EXPECT_FALSE(check_pools(problem, {}, apart).empty()) << "no node has six";
}

}  // namespace
}  // namespace wattle::plan
