#include "planner/given_plan.h"

#include <gtest/gtest.h>

namespace wattle::planner {
namespace {

TEST(GivenPlan, StepsAreRestatedAsLongAsTheirInstancesServe) {
  GivenPlan given;
  std::vector<FleetMember> members(2);
  members[0] = {InstanceId(0), 1, Phase::Serving, {}};
  members[1] = {InstanceId(1), 1, Phase::Serving, {}};
  policy::ScalingView view;
  view.members = members;
  EXPECT_EQ(given.plan(view).wanted(2), (std::vector{0, 2})) << "as it is";
  Plan plan = Plan::of({0, 1}, "one");
  plan.steps.emplace_back().kind = StepKind::Drain;
  plan.steps.front().from = {InstanceId(0)};
  given.give(plan);
  EXPECT_TRUE(given.fresh());
  EXPECT_EQ(given.plan(view).steps.size(), 1U);
  EXPECT_FALSE(given.fresh());
  members[0].phase = Phase::Draining;
  EXPECT_TRUE(given.plan(view).steps.empty());
}

}  // namespace
}  // namespace wattle::planner
