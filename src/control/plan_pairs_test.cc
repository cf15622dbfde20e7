// P/D pairs: two instances that start, serve, drain and end as one.
#include <gtest/gtest.h>

#include "control/plan_check.h"
#include "control/plan_steps_rig_test.h"

namespace wattle::control::steps_rig {
namespace {

constexpr std::size_t kPrefill = 3, kDecode = 4, kPair = 5;

std::vector<policy::Shape> pair_shapes() {
  policy::Shape prefill{1, 1.0, Span::s(30)}, decode{2, 1.0, Span::s(30)}, pair{3, 1.0, Span::s(30)};
  prefill.role = Role::Prefill;
  decode.role = Role::Decode;
  pair.pair = PairShape{kPrefill, kDecode};
  return {prefill, decode, pair};
}

/// One instance of a GPU serves, on two nodes of four.
struct PairFleet : Fleet {
  explicit PairFleet(int nodes = 2) : Fleet(nodes, {0}, 0, 1000, pair_shapes()) {}
  void want(std::int32_t pairs, double seconds, std::int32_t others = 1) {
    plan(Plan::of({others, 0, 0, 0, 0, pairs}, "pairs"), seconds);
  }
  /// It serves, as instances 1 (decode) and 2 (prefill).
  void one() {
    want(1, 10);
    up(1, 20);
    up(2, 20);
  }
  [[nodiscard]] std::int32_t free_gpus() const {
    std::int32_t free = 0;
    for (const NodeView& node : executor->nodes()) free += node.free_gpus;
    return free;
  }
};

TEST(PlanPairs, APairServesOnceBothOfItDo) {
  PairFleet fleet;
  fleet.want(1, 10);
  ASSERT_EQ(fleet.driver.fleet.size(), 3U);
  const auto& decode = fleet.driver.fleet.at(InstanceId(1)).order;
  const auto& prefill = fleet.driver.fleet.at(InstanceId(2)).order;
  EXPECT_EQ(decode.shape, kDecode);
  EXPECT_EQ(prefill.shape, kPrefill);
  EXPECT_EQ(prefill.decode, InstanceId(1));
  EXPECT_EQ(decode.decode, kNoInstance);
  EXPECT_EQ(fleet.free_gpus(), 8 - 1 - 3);
  ASSERT_EQ(fleet.executor->members().size(), 2U) << "one member, of two instances";
  fleet.up(2, 20);
  EXPECT_EQ(fleet.state(2), State::Coming) << "nobody decodes yet";
  fleet.up(1, 21);
  EXPECT_EQ(fleet.state(1), State::Open);
  EXPECT_EQ(fleet.state(2), State::Open);
  EXPECT_EQ(fleet.executor->count()[kPair].serving, 1);
}

TEST(PlanPairs, ItDrainsInTurnAndEndsAsOne) {
  PairFleet fleet;
  fleet.one();
  fleet.want(0, 30);
  EXPECT_EQ(fleet.state(2), State::Draining);
  EXPECT_EQ(fleet.state(1), State::Open) << "what is being computed goes on there";
  fleet.drained(2, 31);
  EXPECT_EQ(fleet.state(2), State::Draining);
  EXPECT_EQ(fleet.state(1), State::Draining);
  fleet.drained(2, 31.5);
  EXPECT_EQ(fleet.state(1), State::Draining) << "said once more, while answers go on in the other one";
  fleet.drained(1, 32);
  EXPECT_EQ(fleet.state(1), State::Gone);
  EXPECT_EQ(fleet.state(2), State::Gone);
  EXPECT_EQ(fleet.free_gpus(), 7);
}

TEST(PlanPairs, HalfOfOneIsNoTarget) {
  FleetBounds bounds{{1, 1, 2}, 16};
  EXPECT_EQ(flaw_of(Plan::of({1, 1, 0}, "any"), {}, bounds), nullptr);
  bounds.half_of_pair = {false, true, false};
  EXPECT_STREQ(flaw_of(Plan::of({1, 1, 0}, "any"), {}, bounds), "a target of half a pair");
  EXPECT_EQ(flaw_of(Plan::of({1, 0, 1}, "any"), {}, bounds), nullptr);
}

TEST(PlanPairs, WithoutColocatedOnesBesideBothServeByThemselves) {
  PlanExecutorOptions options;
  options.shapes = pair_shapes();
  options.shapes.back().pair = PairShape{0, 1};
  for (int n = 0; n < 2; ++n) options.nodes.push_back({NodeId(n), "", "", 4, {}});
  auto script = std::make_shared<Scripted>();
  Driver driver;
  Journal journal;
  PlanExecutor executor(script, Mode::Enforce, options, driver, journal);
  driver.executor = &executor;
  script->next = Plan::of({1, 1, 0}, "one of each");
  executor.tick(at(10));
  EXPECT_EQ(journal.planned, "one of each");
  EXPECT_EQ(driver.fleet.size(), 2U);
}

TEST(PlanPairs, ItIsCalledBackWhole) {
  PairFleet fleet;
  fleet.one();
  fleet.want(0, 30);
  fleet.drained(2, 31);
  fleet.want(1, 40);
  EXPECT_EQ(fleet.state(1), State::Open);
  EXPECT_EQ(fleet.state(2), State::Open);
  EXPECT_EQ(fleet.driver.fleet.size(), 3U);
  fleet.want(0, 50);
  fleet.drained(1, 51);
  EXPECT_EQ(fleet.state(1), State::Open) << "not before its prefill instance is empty again";
}

TEST(PlanPairs, WithoutOneHalfTheOtherDrainsAndAnotherPairStarts) {
  for (const std::int32_t dies : {1, 2}) {
    PairFleet fleet;
    fleet.one();
    const std::int32_t other = 3 - dies;
    fleet.die(dies, 30);
    EXPECT_EQ(fleet.state(other), State::Draining) << dies;
    ASSERT_EQ(fleet.driver.fleet.size(), 5U) << dies;
    EXPECT_EQ(fleet.driver.fleet.at(InstanceId(4)).order.decode, InstanceId(3)) << "a whole pair, not the dead half";
    EXPECT_EQ(fleet.free_gpus(), 8 - 1 - 3 - (dies == 1 ? 1 : 2));
    fleet.drained(other, 31);
    EXPECT_EQ(fleet.state(other), State::Gone) << dies;
    EXPECT_EQ(fleet.free_gpus(), 8 - 1 - 3);
  }
}

TEST(PlanPairs, AHalfIsNotCalledBackHoweverDarkItIs) {
  PairFleet fleet;
  fleet.one();
  fleet.want(1, 25, 0);
  fleet.drained(0, 26);
  ASSERT_EQ(fleet.state(0), State::Gone);
  fleet.driver.goes_dark = true;
  fleet.die(1, 30);
  EXPECT_EQ(fleet.state(2), State::Draining) << "nobody serves, and it could not";
}

TEST(PlanPairs, AHalfThatDiesWhileTheyDrainLetsTheOtherFinish) {
  for (const bool empty : {false, true}) {
    for (const std::int32_t dies : {1, 2}) {
      PairFleet fleet;
      fleet.one();
      fleet.want(0, 30);
      if (empty) fleet.drained(2, 31);
      fleet.die(dies, 32);
      const bool over = empty && dies == 1;
      EXPECT_EQ(fleet.state(3 - dies), over ? State::Gone : State::Draining) << empty << dies;
      if (!over) fleet.drained(3 - dies, 33);
      EXPECT_EQ(fleet.free_gpus(), 7) << empty << dies;
      EXPECT_EQ(fleet.executor->members().size(), 1U) << empty << dies;
    }
  }
}

TEST(PlanPairs, AHalfThatDoesNotComeUpTakesTheOtherWithIt) {
  PairFleet fleet;
  fleet.want(1, 10);
  fleet.up(1, 20);
  fleet.die(2, 21);
  EXPECT_EQ(fleet.state(1), State::Gone);
  EXPECT_EQ(fleet.free_gpus(), 7);
  EXPECT_EQ(fleet.driver.fleet.size(), 3U) << "not at once";
  fleet.want(1, 40);
  EXPECT_EQ(fleet.driver.fleet.size(), 5U);
}

TEST(PlanPairs, WithoutRoomForBothNeitherStarts) {
  PairFleet fleet(1);
  fleet.want(1, 10, 2);
  EXPECT_EQ(fleet.driver.fleet.size(), 2U) << "of four GPUs two are taken: there is room for one half";
}

TEST(PlanPairs, APairIsNeitherMovedNorResharded) {
  PairFleet fleet;
  fleet.one();
  Plan plan = Plan::of({1, 0, 0, 0, 0, 1}, "pairs");
  plan.steps = {step(StepKind::Move, {2}, {}), step(StepKind::Reshard, {0}, {0})};
  plan.steps.front().node = NodeId(1);
  plan.steps.pop_back();
  fleet.plan(plan, 30);
  EXPECT_EQ(fleet.driver.fleet.size(), 3U);
  EXPECT_EQ(fleet.journal.steps.back(), "a pair is neither moved nor re-sharded");
}

}  // namespace
}  // namespace wattle::control::steps_rig
