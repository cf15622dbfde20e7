#include "planner/given_plan.h"

#include <gtest/gtest.h>

namespace wattle::planner {
namespace {

TEST(GivenPlan, IsReadAsTheJournalWritesIt) {
  const auto plan =
      plan_from_json(R"({"instances":[{"shape":1,"count":2,"pool":3}],"weights":[{"class":0,"pool":3,"weight":1.0}],)"
                     R"("clocks":[{"pool":3,"least_mhz":210,"most_mhz":1410}],)"
                     R"("steps":[{"kind":"reshard","from":[0],"to":[1,1],"serves_on":true}]})");
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->instances.front().pool, PoolId(3));
  EXPECT_EQ(plan->weights.front().weight, 1.0);
  EXPECT_EQ(plan->clocks.front().most, MegaHertz(1410));
  EXPECT_EQ(plan->steps.front().kind, StepKind::Reshard);
  EXPECT_EQ(plan->steps.front().to, (std::vector<std::size_t>{1, 1}));
  EXPECT_TRUE(plan->steps.front().serves_on);
}

TEST(GivenPlan, BadOnesSayWhatIsWrong) {
  const auto problem = [](const char* text) {
    const auto plan = plan_from_json(text);
    return plan ? std::string("accepted") : plan.error().message();
  };
  EXPECT_EQ(problem("[]"), "plan: is one JSON object with a list of instances");
  EXPECT_EQ(problem(R"({"instances":[{"shape":0}]})"), "plan: count is missing");
  EXPECT_EQ(problem(R"({"instances":3})"), "plan: instances must be a list");
  EXPECT_EQ(problem(R"({"steps":[{"kind":"jump"}]})"),
            "plan: kind is 'jump'; use start, drain, reshard, move or reroute");
}

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
