#include "planner/given_plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "journal/decisions_jsonl.h"

namespace wattle::planner {
namespace {

TEST(GivenPlan, WhatIsHandedInIsWholeAndKnown) {
  const auto problem = [](const char* json, std::size_t pools = 0) {
    const auto plan = given_plan_from_json(json, 2, pools);
    return plan ? std::string() : plan.error().message();
  };
  EXPECT_EQ(problem(R"({"instances":[{"shape":1,"count":1,"pool":7}]})"), "") << "no pool is stated: plans make them";
  EXPECT_EQ(problem(R"({"instances":[{"shape":1,"count":1,"pool":7}]})", 2),
            "plan: instances[0].pool: there are pools 0 to 1");
  EXPECT_EQ(problem("{}"), "plan: instances must be a list of at least one {shape, count}");
  EXPECT_EQ(problem(R"({"instances":[]})"), "plan: instances must be a list of at least one {shape, count}");
  EXPECT_NE(problem(R"({"instances":[{"shape":2,"count":1}]})").find("instances[0].shape: there are shapes 0 to 1"),
            std::string::npos);
  EXPECT_NE(problem(R"({"instances":[{"shape":0,"count":-1}]})").find("instances[0].count"), std::string::npos);
  EXPECT_NE(problem(R"({"instances":[{"shape":0,"count":1000000000}]})").find("instances[0].count"), std::string::npos);
  EXPECT_NE(problem(R"({"instances":[{"shape":0,"count":1}],"zzz":1})").find("zzz is not known"), std::string::npos);
  EXPECT_NE(problem(R"({"instances":[{"shape":0,"count":1,"gpus":1}]})").find("instances[0].gpus is not known"),
            std::string::npos);
  EXPECT_NE(problem(R"({"instances":[{"shape":0,"count":1}],"weights":[{"class":0,"pool":0,"weight":2}]})")
                .find("weights[0].weight"),
            std::string::npos);
  EXPECT_EQ(problem(R"({"instances":[{"shape":0,"count":1}],"weights":[{"class":0,"pool":2,"weight":1}]})", 2),
            "plan: weights[0].pool: there are pools 0 to 1");
}

/// What it is handed in as is what the journal writes of it.
TEST(GivenPlan, APlanOfTheJournalMayBeHandedInAgain) {
  Plan plan = Plan::of({1, 1}, "one of each");
  plan.weights = {{ClassId(0), PoolId(0), 1.0}};
  plan.clocks = {{PoolId(0), MegaHertz(210), MegaHertz(1410)}};
  plan.steps.push_back({StepKind::Reshard, {InstanceId(0)}, {1}, NodeId(0), PoolId(0), true, {}});
  auto json = journal::plan_json(plan);
  json["sound"] = true;
  const auto again = given_plan_from_json(json.dump(), 2, 1);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(journal::plan_json(*again).dump(), journal::plan_json(plan).dump());
}

/// Of one shape, 1.
std::vector<FleetMember> two_that_serve() {
  return {{InstanceId(0), 1, Phase::Serving, {}}, {InstanceId(1), 1, Phase::Serving, {}}};
}

TEST(GivenPlan, AFleetThatNobodyPlansStaysAsItBegan) {
  GivenPlan given;
  const auto members = two_that_serve();
  policy::ScalingView view;
  view.members = members;
  EXPECT_EQ(given.plan(view).wanted(2), (std::vector{0, 2}));
  view.members = std::span(members).first(1);
  EXPECT_EQ(given.plan(view).wanted(2), (std::vector{0, 2})) << "one has gone with its node";
}

TEST(GivenPlan, StepsAreRestatedAsLongAsTheirInstancesServe) {
  GivenPlan given;
  auto members = two_that_serve();
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
