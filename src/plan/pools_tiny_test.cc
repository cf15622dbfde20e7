// Demands near and below the tolerance of the solver.
#include <gtest/gtest.h>

#include <string>

#include "plan/pools.h"
#include "plan/pools_check.h"
#include "plan/test_pools.h"

namespace wattle::plan {
namespace {
using testing::small_problem;
using testing::SmallMode;

PoolsPlan checked(const PoolsProblem& problem, const PoolsOptions& options = {}, const PoolsPlan* previous = nullptr) {
  const auto plan = plan_pools(problem, options, previous);
  if (!plan) {
    ADD_FAILURE() << plan.error().message();
    return {};
  }
  for (const std::string& fault : check_pools(problem, options, *plan, previous)) ADD_FAILURE() << fault;
  return *plan;
}

SmallMode two() { return {{2}, 700, 200, 10.0}; }

/// A demand near the solver's tolerance needs a worker like any other.
TEST(PoolsTiny, HoweverSmallADemandItHasOneWorker) {
  for (const auto formulation : {PoolsFormulation::Wattle, PoolsFormulation::Published}) {
    for (const double other : {0.0, 15.0}) {
      for (const double tiny : {2e-3, 9e-4, 3e-5, 1e-6, 1.1e-6, 2e-7, 5e-8, 1e-10, 1e-20}) {
        auto problem = small_problem({two(), SmallMode{{4}, 700, 200, 2000.0}}, tiny, {{{8}, 500.0}, {{8}, 100.0}});
        auto& types = problem.partitions[0].types;
        types.push_back(types[0]);
        types.back().name = "LL";
        types.back().demand_per_s = {other};
        PoolsOptions options;
        options.formulation = formulation;
        const PoolsPlan plan = checked(problem, options);
        EXPECT_EQ(plan.status, PoolsStatus::Planned) << tiny;
        int workers = 0;
        for (const WorkerPool& pool : plan.pools) workers += pool.type == 0 ? pool.workers : 0;
        EXPECT_EQ(workers, 1) << tiny << " beside " << other;
        const PoolsPlan next = checked(problem, options, &plan);
        EXPECT_EQ(next.status, PoolsStatus::Planned) << tiny << " from the plan before";
      }
    }
  }
}

TEST(PoolsTiny, OfAVerySmallDemandAllIsShedWhereNoGpuIsLeft) {
  const PoolsPlan plan = checked(small_problem({two()}, 1e-7, {{{1}, 100.0}}));
  EXPECT_EQ(plan.status, PoolsStatus::Shed);
  EXPECT_NEAR(plan.shed_per_s[0], 1e-7, 1e-12);
  EXPECT_NE(plan.reason.find("1e-07 of 1e-07/s of SS shed"), std::string::npos) << plan.reason;
}

}  // namespace
}  // namespace wattle::plan
