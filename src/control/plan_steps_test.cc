#include <gtest/gtest.h>

#include <set>
#include <string>

#include "control/plan_steps_rig_test.h"

namespace wattle::control::steps_rig {
namespace {

TEST(PlanSteps, AReshardServesOnWhereMemoryHoldsBothAndTakesItsTransferTime) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  ASSERT_EQ(fleet.driver.fleet.size(), 3U);
  EXPECT_EQ(fleet.state(0), State::Open);
  const StartOrder& order = fleet.driver.fleet.at(InstanceId(1)).order;
  EXPECT_EQ(order.from, std::vector{kFirst});
  EXPECT_EQ(order.gpus.size(), 2U);
  // Each of the 2-GPU shards is half of 40 bytes, a quarter is already in place: 10 bytes over links of 10 bytes/s,
  // plus the start.
  ASSERT_TRUE(order.load);
  EXPECT_GT(*order.load, Span::s(1));
  EXPECT_LE(*order.load, Span::s(2));
  fleet.up(1, 15);
  EXPECT_EQ(fleet.state(0), State::Open) << "until both serve";
  fleet.up(2, 15);
  EXPECT_EQ(fleet.state(0), State::Draining);
  fleet.drained(0, 20);
  EXPECT_EQ(fleet.state(0), State::Gone);
  EXPECT_EQ(fleet.journal.steps, (std::vector<std::string>{"begun", "done"}));
  EXPECT_EQ(fleet.executor->nodes().front().free_gpus, 0);
}

TEST(PlanSteps, AReshardThatMemoryDoesNotHoldTwiceLeavesFirstIfSomethingElseServes) {
  Fleet alone(1, {2}, 15);
  alone.plan(split(), 10);
  EXPECT_EQ(alone.state(0), State::Open);
  EXPECT_EQ(alone.journal.steps.front(), "memory holds no second engine, and nothing else serves");

  Fleet fleet(2, {2, 2}, 15);
  Plan plan = split(false);
  plan.instances.push_back({2, 1, {}, {}});
  fleet.plan(plan, 10);
  EXPECT_EQ(fleet.state(0), State::Draining);
  EXPECT_EQ(fleet.driver.fleet.size(), 2U) << "nothing comes before it is gone";
  fleet.drained(0, 20);
  ASSERT_EQ(fleet.driver.fleet.size(), 4U);
  fleet.up(2, 25);
  fleet.up(3, 25);
  EXPECT_EQ(fleet.journal.steps, (std::vector<std::string>{"begun", "done"}));
}

TEST(PlanSteps, ANewerPlanDropsWhatHasNotBegunAndRollsBackWhatItDoesNotWant) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  fleet.plan(Plan::of({0, 0, 1}, "back"), 12);
  EXPECT_EQ(fleet.state(0), State::Open);
  EXPECT_EQ(fleet.state(1), State::Gone);
  EXPECT_EQ(fleet.state(2), State::Gone);
  EXPECT_FALSE(fleet.executor->wants_more());
  EXPECT_EQ(fleet.driver.count(State::Open), 1);

  Fleet kept(1, {2});
  kept.plan(split(), 10);
  kept.plan(Plan::of({0, 2, 0}, "the same without its steps"), 12);
  EXPECT_EQ(kept.journal.steps, std::vector<std::string>{"begun"}) << "what began is finished";
  EXPECT_EQ(kept.driver.fleet.size(), 3U);
}

TEST(PlanSteps, AReshardTakesItsNodesFreeGpusToo) {
  Fleet fleet(2, {0, 1});
  const auto& members = fleet.executor->members();
  ASSERT_EQ(members[0].node, members[1].node);
  Plan plan = Plan::of({0, 2, 0}, "the smaller one grows on the fourth GPU");
  plan.steps = {step(StepKind::Reshard, {0}, {1})};
  fleet.plan(plan, 10);
  ASSERT_EQ(fleet.driver.fleet.size(), 3U);
  const StartOrder& order = fleet.driver.fleet.at(InstanceId(2)).order;
  EXPECT_EQ(order.node, members[0].node);
  EXPECT_EQ(std::set(order.gpus.begin(), order.gpus.end()), (std::set<std::int32_t>{0, 3}));
  fleet.up(2, 15);
  fleet.drained(0, 20);
  EXPECT_EQ(fleet.journal.steps, (std::vector<std::string>{"begun", "done"}));
  EXPECT_EQ(fleet.executor->nodes()[0].free_gpus, 0);
  EXPECT_EQ(fleet.executor->nodes()[1].free_gpus, 4);
}

TEST(PlanSteps, WhatIsTooMuchLeavesTheEmptierNode) {
  Fleet fleet(2, {1, 2});
  Plan plan = Plan::of({0, 2, 0}, "two of two GPUs");
  plan.steps = {step(StepKind::Reshard, {1}, {1, 1})};
  fleet.plan(plan, 10);
  fleet.up(2, 15);
  fleet.up(3, 15);
  fleet.drained(1, 20);
  EXPECT_EQ(fleet.state(0), State::Draining) << "the oldest, but then its node is empty";
  EXPECT_EQ(fleet.state(2), State::Open);
  EXPECT_EQ(fleet.state(3), State::Open);
}

TEST(PlanSteps, OldInstancesServeOnWhereTheNewOnesDie) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  fleet.die(1, 11);
  fleet.die(2, 11);
  EXPECT_EQ(fleet.state(0), State::Open);
  EXPECT_EQ(fleet.driver.fleet.at(kFirst).squeezed, 0.0);
  EXPECT_EQ(fleet.journal.steps.back(), "its new instance died");
}

TEST(PlanSteps, ANodeThatDiesWhileItIsReshardedLosesWhatItHeldAndNothingElse) {
  Fleet fleet(2, {2, 2}, 15);
  Plan plan = split(false);
  plan.instances.push_back({2, 1, {}, {}});
  fleet.plan(plan, 10);
  fleet.executor->node_is(NodeId(0), false, at(11));
  fleet.die(0, 11);
  EXPECT_EQ(fleet.journal.steps.back(), "its node died");
  EXPECT_EQ(fleet.driver.fleet.size(), 2U) << "no room until it is back";
  EXPECT_EQ(fleet.state(1), State::Open);
  fleet.executor->node_is(NodeId(0), true, at(100));
  EXPECT_EQ(fleet.driver.fleet.size(), 4U);
}

TEST(PlanSteps, AMoveServesThereBeforeItDrainsHere) {
  Fleet fleet(2, {2});
  Plan plan = Plan::of({0, 0, 1}, "move");
  plan.steps = {step(StepKind::Move, {0}, {})};
  plan.steps.front().node = NodeId(1);
  fleet.plan(plan, 10);
  ASSERT_EQ(fleet.driver.fleet.size(), 2U);
  EXPECT_EQ(fleet.driver.fleet.at(InstanceId(1)).order.node, NodeId(1));
  EXPECT_EQ(fleet.state(0), State::Open);
  fleet.plan(plan, 20);
  EXPECT_EQ(fleet.driver.fleet.size(), 2U) << "saying it again begins nothing again";
  EXPECT_TRUE(fleet.script->seen.front().changing);
  fleet.up(1, 40);
  EXPECT_EQ(fleet.state(0), State::Draining);
  fleet.drained(0, 50);
  EXPECT_EQ(fleet.journal.steps.back(), "done");
}

TEST(PlanSteps, AMoveToAnotherPoolDoesNotEmptyItsOwn) {
  Fleet fleet(3, {2});
  Plan plan;
  plan.reason = "two pools";
  plan.instances = {{2, 1, {}, PoolId(0)}, {2, 1, {}, PoolId(1)}};
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(1), 1.0}};
  fleet.plan(plan, 10);
  fleet.up(1, 40);
  ASSERT_EQ(fleet.driver.weights.size(), 2U);
  plan.reason = "nothing would serve in a pool";
  plan.steps = {step(StepKind::Move, {1}, {})};
  plan.steps.front().node = NodeId(2);
  plan.steps.front().pool = PoolId(0);
  fleet.plan(plan, 50);
  // Valid by its own weights, which do not apply while pool 2 has no serving instance.
  plan.reason = "sound";
  plan.instances = {{2, 2, {}, PoolId(0)}, {2, 1, {}, PoolId(2)}};
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(2), 1.0}};
  fleet.plan(plan, 60);
  ASSERT_EQ(fleet.driver.fleet.size(), 3U);
  fleet.up(2, 90);
  EXPECT_EQ(fleet.state(1), State::Open) << "requests still go to its pool";
}

TEST(PlanSteps, StepsAreStaggered) {
  Fleet fleet(3, {2, 2, 2}, 0, 1);
  Plan plan = Plan::of({0, 4, 1}, "two of three");
  plan.steps = {step(StepKind::Reshard, {0}, {1, 1}), step(StepKind::Reshard, {1}, {1, 1})};
  fleet.plan(plan, 10);
  EXPECT_EQ(fleet.journal.steps, std::vector<std::string>{"begun"});
  fleet.up(3, 15);
  fleet.up(4, 15);
  EXPECT_EQ(fleet.driver.fleet.size(), 5U) << "the first has not ended";
  fleet.drained(0, 20);
  EXPECT_EQ(fleet.driver.fleet.size(), 7U);
}

TEST(PlanSteps, WeightsHoldOnceTheirPoolsServeAndTheirPoolsAreNeverEmptied) {
  Fleet fleet(2, {2});
  Plan plan;
  plan.reason = "two pools";
  plan.instances = {{2, 1, {}, PoolId(0)}, {2, 1, {}, PoolId(1)}};
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(1), 1.0}};
  plan.clocks = {{PoolId(1), MegaHertz(1005), MegaHertz(1410)}};
  fleet.plan(plan, 10);
  EXPECT_TRUE(fleet.driver.weights.empty());
  EXPECT_EQ(fleet.driver.clocks.size(), 1U) << "at once";
  fleet.up(1, 40);
  ASSERT_EQ(fleet.driver.weights.size(), 2U);
  EXPECT_EQ(fleet.driver.fleet.at(InstanceId(1)).order.pool, PoolId(1));
  EXPECT_EQ(fleet.journal.plans, 1);
  fleet.plan(plan, 50);
  EXPECT_EQ(fleet.journal.plans, 1) << "the same again is not written again";
  // Pool 1 is removed: first its requests, then its instance.
  plan.instances.pop_back();
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(0), 1.0}};
  fleet.plan(plan, 60);
  EXPECT_EQ(fleet.state(1), State::Draining);
}

TEST(PlanSteps, WhatHoldsTheGpusThatAreMissingDrainsFirst) {
  Fleet fleet(1, {1, 1});
  fleet.plan(Plan::of({2, 1, 0}, "smaller ones"), 10);
  EXPECT_EQ(fleet.state(1), State::Draining) << "there is no room beside it";
  EXPECT_EQ(fleet.driver.fleet.size(), 2U);
  fleet.drained(1, 20);
  EXPECT_EQ(fleet.driver.fleet.size(), 4U);
}

TEST(PlanSteps, RatesAreByClass) {
  Fleet fleet(1, {2});
  fleet.executor->arrived(Instant(), ClassId(2), 40);
  fleet.executor->arrived(Instant(), ClassId(0), 10);
  fleet.plan(Plan::of({0, 0, 1}, "as it is"), 10);
  EXPECT_EQ(fleet.script->rates, (std::vector{1.0, 0.0, 4.0}));
  EXPECT_EQ(fleet.journal.plans, 0) << "counts alone are in the decision";
}

TEST(PlanSteps, AClockThatGoesBackIsNotFollowed) {
  Fleet fleet(1, {2});
  fleet.plan(Plan::of({0, 0, 1}, "a"), 100);
  fleet.executor->arrived(Instant(), {}, 5);
  fleet.plan(Plan::of({0, 0, 1}, "b"), 40);
  EXPECT_EQ(fleet.script->rates.front(), 0.0) << "in no time";
  EXPECT_GT(fleet.executor->next_tick(), at(100));
}

// The executor dies within an epoch. The next one gets what is observed and does not know the steps.
TEST(PlanSteps, ASuccessorResumesAReshardFromWhatItSees) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  const auto members = fleet.executor->members();
  fleet.executor = fleet.make();
  fleet.driver.executor = fleet.executor.get();
  for (FleetMember member : members) {
    member.changing = false;
    EXPECT_TRUE(fleet.executor->adopt(member, at(12)));
  }
  fleet.plan(Plan::of({0, 2, 0}, "the same counts"), 20);
  EXPECT_TRUE(fleet.executor->members().front().changing);
  EXPECT_EQ(fleet.driver.fleet.size(), 3U) << "nothing is started twice";
  fleet.up(1, 25);
  fleet.up(2, 25);
  EXPECT_EQ(fleet.state(0), State::Draining);
  fleet.drained(0, 30);
  EXPECT_EQ(fleet.driver.count(State::Open), 2);
}

}  // namespace
}  // namespace wattle::control::steps_rig
