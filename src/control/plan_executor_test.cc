// What the plan executor starts, opens, drains and ends for the counts it is given.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "control/plan_executor_rig_test.h"

namespace wattle::control::plan_rig {
namespace {

TEST(PlanExecutor, AStartBesideOneThatServesTakesItsWeights) {
  PlanExecutorOptions options;
  options.shapes = {{2, 1.0, Span::s(30)}};
  options.nodes = {{NodeId(0), "", "", 4, {}}, {NodeId(1), "", "", 4, {}}};
  options.reshard.weight_bytes = 140'000'000'000;
  options.reshard.link_bytes_per_s = 280e9;
  options.reshard.sync = Span::s(1);
  options.weights_beside = true;
  Driver driver;
  Journal journal;
  auto policy = std::make_unique<Scripted>(std::vector<std::int32_t>{4});
  PlanExecutor scaler(std::move(policy), Mode::Enforce, options, driver, journal);
  driver.scaler = &scaler;
  driver.states.push_back(Driver::State::Open);
  driver.shapes.push_back(0);
  ASSERT_TRUE(scaler.adopt(InstanceId(0), 0, Instant()));
  scaler.tick(at(10.0));
  ASSERT_EQ(driver.loads.size(), 3U);
  EXPECT_EQ(driver.loads[0], Span::ms(1250)) << "70 GB of a shard at 280 GB/s, and the engine's start";
  EXPECT_FALSE(driver.loads[1].has_value()) << "nothing serves on the other node";
  EXPECT_FALSE(driver.loads[2].has_value());
}

/// Two full nodes swap roles. If the other surplus instances drained first, a pool's only instance would wait for GPUs
/// that the last instance of the other pool holds.
struct Swap {
  static constexpr std::size_t kSmall = 0, kLarge = 1;
  explicit Swap(bool beside_draining) {
    const NodeId a(0), b(1);
    const PoolId first(0), second(1);
    PlanExecutorOptions options;
    options.shapes = {{2, 1.0, Span::s(30)}, {4, 2.0, Span::s(30)}};
    options.nodes = {{a, "", "", 4, {}}, {b, "", "", 4, {}}};
    options.beside_draining = beside_draining;
    auto policy = std::make_unique<Scripted>(std::vector<std::int32_t>{});
    scripted = policy.get();
    policy->targets = {{kSmall, 1, b, first}, {kSmall, 1, b, second}, {kLarge, 1, a, second}};
    policy->weights = {{ClassId(0), first, 1.0}, {ClassId(1), second, 1.0}};
    scaler = std::make_unique<PlanExecutor>(std::move(policy), Mode::Enforce, options, driver, journal);
    driver.scaler = scaler.get();
    serves(0, kSmall, a, first, {0, 1});
    serves(1, kSmall, a, second, {2, 3});
    serves(2, kLarge, b, second, {0, 1, 2, 3});
  }
  void serves(std::int32_t id, std::size_t shape, NodeId node, PoolId pool, std::vector<std::int32_t> gpus) {
    driver.states.push_back(Driver::State::Open);
    driver.shapes.push_back(shape);
    ASSERT_TRUE(
        scaler->adopt({InstanceId(id), shape, Phase::Serving, Instant(), pool, node, std::move(gpus)}, Instant()));
  }
  void run(std::int32_t from, std::int32_t upto) {
    for (std::int32_t t = from; t <= upto; ++t) {
      scaler->tick(at(10.0 * t));
      for (std::size_t i = 0; i < driver.states.size(); ++i) {
        if (driver.states[i] == Driver::State::Starting)
          scaler->up(InstanceId(static_cast<std::int32_t>(i)), at(10.0 * t + 5));
      }
    }
  }
  Driver driver;
  Journal journal;
  Scripted* scripted = nullptr;
  std::unique_ptr<PlanExecutor> scaler;
};

TEST(PlanExecutor, WhoMakesRoomForWhatIsMissingGoesFirst) {
  Swap swap(false);
  swap.driver.empty = true;
  swap.run(1, 10);
  ASSERT_EQ(swap.scaler->members().size(), 3U);
  EXPECT_EQ(swap.driver.count(Driver::State::Open), 3);
  EXPECT_EQ(swap.driver.count(Driver::State::Stopped), 3) << "all that served before";
}

TEST(PlanExecutor, BesideWhoDrainsTheNextHasItsGpusAtOnce) {
  Swap waits(false);
  waits.run(1, 10);
  EXPECT_EQ(waits.driver.count(Driver::State::Draining), 1) << "never done: nobody can follow";
  Swap swap(true);
  swap.run(1, 10);
  EXPECT_EQ(swap.driver.count(Driver::State::Open), 3);
  EXPECT_EQ(swap.driver.count(Driver::State::Draining), 3) << "all that served before, still at it";
  for (const NodeView& node : swap.scaler->nodes()) EXPECT_EQ(node.free_gpus, 0) << "each GPU is taken once";
  // Back to the first plan: draining instances are called back as soon as their GPUs are free, and all are used in the
  // end.
  swap.driver.empty = true;
  swap.scripted->targets = {{Swap::kSmall, 1, NodeId(0), PoolId(0)},
                            {Swap::kSmall, 1, NodeId(0), PoolId(1)},
                            {Swap::kLarge, 1, NodeId(1), PoolId(1)}};
  swap.run(11, 20);
  EXPECT_EQ(swap.driver.count(Driver::State::Open), 3);
  for (const NodeView& node : swap.scaler->nodes()) EXPECT_EQ(node.free_gpus, 0);
  for (std::int32_t id = 0; id < 3; ++id) swap.scaler->drained(InstanceId(id), at(300.0));  // ignored: they serve
  EXPECT_EQ(swap.scaler->members().size(), 3U);
}

TEST(PlanExecutor, ShadowInstancingKeepsTheOldOneUntilTheNewOneServes) {
  House house;
  house.want({1, 0, 0}, 10);
  ASSERT_EQ(house.driver.states.size(), 2U);
  EXPECT_EQ(house.state(0), Driver::State::Open) << "while the new one starts";
  house.scaler->up(InstanceId(1), at(30));
  EXPECT_EQ(house.state(1), Driver::State::Open);
  EXPECT_EQ(house.state(0), Driver::State::Draining);
  house.scaler->drained(InstanceId(0), at(45));
  EXPECT_EQ(house.state(0), Driver::State::Stopped);
  EXPECT_EQ(house.journal.phases(InstanceId(0)), (std::vector{Phase::Draining, Phase::Gone}));
  EXPECT_EQ(house.journal.phases(InstanceId(1)), (std::vector{Phase::Spawning, Phase::Warming, Phase::Serving}));
  EXPECT_EQ(house.scaler->members().size(), 1U);
}

TEST(PlanExecutor, APlanThatFailsItsCheckChangesNothingAndSaysWhy) {
  House house;
  house.want({0, 0, 0}, 10);
  EXPECT_EQ(house.state(0), Driver::State::Open);
  EXPECT_STREQ(house.journal.decisions.back().reason, "no instance is wanted");
  PlanStep step;
  step.kind = StepKind::Reshard;
  step.from = {house.first};
  step.to = {0, 0};
  house.scripted->steps = {step};
  house.want({2, 0, 0}, 20);
  EXPECT_STREQ(house.journal.decisions.back().reason, "nothing would serve");
  EXPECT_EQ(house.driver.states.size(), 1U);
}

TEST(PlanExecutor, ShadowModeAndOffActOnNothing) {
  House shadow(Mode::Shadow);
  shadow.want({1, 0, 0}, 10);
  EXPECT_EQ(shadow.driver.states.size(), 1U);
  EXPECT_EQ(shadow.journal.decisions.size(), 1U);
  House off(Mode::Off);
  EXPECT_EQ(off.scaler->next_tick(), Instant::never());
  off.want({1, 0, 0}, 10);
  EXPECT_TRUE(off.journal.decisions.empty());
}

TEST(PlanExecutor, CallsADrainingOneBackInsteadOfStartingAnother) {
  House house;
  house.want({0, 1, 0}, 10);
  house.scaler->up(InstanceId(1), at(30));
  ASSERT_EQ(house.state(0), Driver::State::Draining);
  house.want({0, 0, 1}, 40);
  EXPECT_EQ(house.state(0), Driver::State::Open);
  EXPECT_EQ(house.state(1), Driver::State::Draining) << "what is wanted serves again";
  EXPECT_EQ(house.driver.states.size(), 2U);
}

/// Outdated instances of one GPU each, as many as are wanted, on a node of so many GPUs.
struct Outdated {
  Outdated(std::int32_t instances, std::int32_t gpus) {
    PlanExecutorOptions options;
    options.shapes = {{1, 1.0, Span::s(30)}};
    options.nodes = {{NodeId(0), "", "", gpus, {}}};
    scaler = std::make_unique<PlanExecutor>(std::make_shared<Scripted>(std::vector{instances}), Mode::Enforce, options,
                                            driver, journal);
    driver.scaler = scaler.get();
    driver.last_may_go = instances == 1;
    for (std::int32_t id = 0; id < instances; ++id) {
      driver.states.push_back(Driver::State::Open);
      driver.shapes.push_back(0);
      FleetMember member{InstanceId(id), 0, Phase::Serving, Instant(), PoolId(0), NodeId(0), {id}};
      member.outdated = true;
      EXPECT_TRUE(scaler->adopt(member, Instant()));
    }
    scaler->tick(at(10));
  }
  Driver driver;
  Journal journal;
  std::unique_ptr<PlanExecutor> scaler;
};

TEST(PlanExecutor, OutdatedOnesAreReplacedOneAfterTheOther) {
  using State = Driver::State;
  Outdated fleet(2, 2);
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Open, State::Draining}));
  fleet.scaler->drained(InstanceId(1), at(20));
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Open, State::Stopped, State::Starting}));
  fleet.scaler->up(InstanceId(2), at(50));
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Draining, State::Stopped, State::Open}));
  fleet.scaler->drained(InstanceId(0), at(60));
  fleet.scaler->up(InstanceId(3), at(90));
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Stopped, State::Stopped, State::Open, State::Open}));
  fleet.scaler->tick(at(100));
  EXPECT_EQ(fleet.driver.states.size(), 4U);
}

TEST(PlanExecutor, AnOutdatedOneServesUntilItsSuccessorDoesIfThereIsRoom) {
  using State = Driver::State;
  Outdated fleet(1, 2);
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Open, State::Starting}));
  fleet.scaler->up(InstanceId(1), at(40));
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Draining, State::Open}));
}

TEST(PlanExecutor, TheLastOutdatedOneLeavesFirstWithoutRoomAndIsNotCalledBack) {
  using State = Driver::State;
  Outdated fleet(1, 1);
  fleet.scaler->tick(at(20));
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Draining}));
  fleet.scaler->drained(InstanceId(0), at(25));
  EXPECT_EQ(fleet.driver.states, (std::vector{State::Stopped, State::Starting}));
}

TEST(PlanExecutor, GivesUpWhatIsNoLongerWantedBeforeItServes) {
  House house;
  house.want({0, 1, 0}, 10);
  house.want({0, 0, 1}, 20);
  EXPECT_EQ(house.state(1), Driver::State::Stopped);
  EXPECT_EQ(house.state(0), Driver::State::Open);
  house.scaler->up(InstanceId(1), at(30));  // a late report has no effect
  EXPECT_EQ(house.state(1), Driver::State::Stopped);
}

TEST(PlanExecutor, AStartThatFailsIsRetriedWithGrowingPauses) {
  House house;
  house.want({1, 0, 0}, 10);
  std::vector<double> starts{10};
  double now = 10;
  for (int i = 0; i < 40; ++i) {
    const auto before = house.driver.states.size();
    if (house.driver.states.back() == Driver::State::Starting) {
      house.driver.states.back() = Driver::State::Dead;
      house.scaler->died(InstanceId(static_cast<std::int32_t>(before) - 1), at(now + 1));
    }
    now += 10;
    house.scaler->tick(at(now));
    if (house.driver.states.size() > before) starts.push_back(now);
  }
  // The pauses are 10, 20, 40, 80 and 160 s after deaths one second after the start; ticks every 10 s.
  EXPECT_EQ(starts, (std::vector<double>{10, 30, 60, 110, 200, 370}));
  EXPECT_EQ(house.state(0), Driver::State::Open) << "the old one serves on";
}

TEST(PlanExecutor, StopsWhatIsNotUpInTime) {
  House house(Mode::Enforce, Span::s(60));
  house.want({1, 0, 0}, 10);
  house.want({1, 0, 0}, 60);
  EXPECT_EQ(house.state(1), Driver::State::Starting);
  house.want({1, 0, 0}, 70);
  EXPECT_EQ(house.state(1), Driver::State::Stopped);
  EXPECT_EQ(house.driver.states.size(), 2U) << "after the pause";
  house.want({1, 0, 0}, 80);
  EXPECT_EQ(house.driver.states.size(), 3U);
}

TEST(PlanExecutor, ReplacesADeadServingInstanceAtOnceAndDrainingOnesHelpOut) {
  House house;
  house.want({0, 1, 0}, 10);
  house.scaler->up(InstanceId(1), at(30));
  ASSERT_EQ(house.state(0), Driver::State::Draining);
  house.driver.states[1] = Driver::State::Dead;
  house.scaler->died(InstanceId(1), at(35));
  EXPECT_EQ(house.state(0), Driver::State::Open) << "nothing else serves";
  ASSERT_EQ(house.driver.states.size(), 3U);
  EXPECT_EQ(house.driver.shapes[2], 1U) << "the wanted shape, not the one that helps out";
  house.scaler->up(InstanceId(2), at(65));
  EXPECT_EQ(house.state(0), Driver::State::Draining);
  house.driver.states[0] = Driver::State::Dead;
  house.scaler->died(InstanceId(0), at(66));
  EXPECT_EQ(house.driver.states.size(), 3U) << "a draining one is not replaced";
}

TEST(PlanExecutor, WarmingInstanceTakesNobodysPlace) {
  House house;
  house.driver.serves_at_once = false;
  house.want({1, 0, 0}, 10);
  house.scaler->up(InstanceId(1), at(30));
  EXPECT_EQ(house.state(0), Driver::State::Open);
  house.scaler->serving(InstanceId(1), at(35));
  EXPECT_EQ(house.state(0), Driver::State::Draining);
}

// Any order of plans, deaths and progress: the driver checks the order of calls, the last serving instance is never
// drained, no instance is lost, and a fleet without further events reaches the plan.
RC_GTEST_PROP(PlanExecutorProperty, ComesToThePlanWhateverHappens, (std::vector<std::uint8_t> draws, bool empty)) {
  House house;
  house.driver.empty = empty;
  double now = 0;
  const auto each = [&](auto act) {
    for (std::size_t i = 0; i < house.driver.states.size(); ++i) act(i, InstanceId(static_cast<std::int32_t>(i)));
  };
  const auto step = [&](std::uint8_t draw) {
    now += 1 + draw % 7;
    const std::size_t which = (draw / 8U) % house.driver.states.size();
    const InstanceId id(static_cast<std::int32_t>(which));
    Driver::State& state = house.driver.states[which];
    switch (draw % 5) {
      case 0: {
        std::vector<std::int32_t> wanted(3, 0);
        wanted[(draw / 5U) % 3] = 1 + draw % 2;
        return house.want(wanted, now);
      }
      case 1:
        return house.scaler->up(id, at(now));
      case 2:
        if (state == Driver::State::Draining) house.scaler->drained(id, at(now));
        return;
      case 3:
        if (state == Driver::State::Stopped || draw % 16 > 3) return;
        state = Driver::State::Dead;
        return house.scaler->died(id, at(now));
      default:
        return house.scaler->tick(at(now));
    }
  };
  for (const std::uint8_t draw : draws) {
    step(draw);
    const auto alive = static_cast<std::int64_t>(house.driver.states.size()) -
                       house.driver.count(Driver::State::Stopped) - house.driver.count(Driver::State::Dead);
    RC_ASSERT(alive == static_cast<std::int64_t>(house.scaler->members().size()));
  }
  for (int i = 0; i < 60; ++i) {
    now += 10;
    house.scaler->tick(at(now));
    each([&](std::size_t k, InstanceId id) {
      if (house.driver.states[k] == Driver::State::Starting) house.scaler->up(id, at(now));
      if (house.driver.states[k] == Driver::State::Draining) house.scaler->drained(id, at(now));
    });
  }
  std::vector<std::int32_t> open(3, 0);
  each([&](std::size_t k, InstanceId) {
    if (house.driver.states[k] == Driver::State::Open) ++open[house.driver.shapes[k]];
  });
  RC_ASSERT(open == house.scripted->wanted);
}

}  // namespace
}  // namespace wattle::control::plan_rig
