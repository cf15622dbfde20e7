// When the plan executor calls its policy, and with which rates.
#include <gtest/gtest.h>

#include <vector>

#include "control/plan_executor_rig_test.h"

namespace wattle::control::plan_rig {
namespace {

TEST(PlanPeriods, WhereNobodyPlansANodeThatGoesIsNothingToPlanFor) {
  PlanExecutorOptions options;
  options.shapes = {{2, 1.0, Span::s(30)}};
  options.nodes = {{NodeId(0), "", "", 4, {}}};
  Driver driver;
  Journal journal;
  for (const Mode mode : {Mode::Off, Mode::Enforce}) {
    PlanExecutor scaler(nullptr, mode, options, driver, journal);
    ASSERT_TRUE(scaler.adopt(InstanceId(0), 0, Instant()));
    scaler.node_is(NodeId(0), false, at(1));
    EXPECT_EQ(scaler.next_tick(), Instant::never());
    scaler.tick(at(1));
    scaler.node_is(NodeId(0), true, at(2));
    EXPECT_EQ(scaler.next_tick(), Instant::never());
  }
}

TEST(PlanPeriods, CountsArrivalsIntoARateAndJournalsThePlan) {
  House house;
  for (int i = 0; i < 25; ++i) house.scaler->arrived(Instant());
  EXPECT_EQ(house.scaler->next_tick(), at(10));
  house.want({0, 1, 0}, 10);
  EXPECT_EQ(house.scripted->rate, 2.5);
  EXPECT_EQ(house.scaler->next_tick(), at(20));
  const auto& record = house.journal.decisions.front();
  EXPECT_EQ(record.kind, journal::DecisionKind::Scaling);
  EXPECT_EQ(record.value, 2) << "GPUs wanted";
  EXPECT_STREQ(record.reason, "scripted");
}

TEST(PlanPeriods, WhileNobodySaysWhatArrivesItIsNoTimeWithoutRequests) {
  House house;
  auto& scaler = *house.scaler;
  scaler.unheard(Span::s(6));
  house.want({0, 1, 0}, 10);
  EXPECT_TRUE(house.journal.decisions.empty()) << "four of ten seconds say too little to begin with";
  EXPECT_EQ(scaler.next_tick(), at(20));
  for (int i = 0; i < 28; ++i) scaler.arrived(Instant());
  scaler.tick(at(20));
  EXPECT_EQ(house.scripted->rate, 2.0) << "in 14 seconds";
  for (int i = 0; i < 12; ++i) scaler.arrived(Instant());
  scaler.unheard(Span::s(6));
  EXPECT_EQ(scaler.rates(at(30)), (std::vector<double>{2.0})) << "four of ten seconds say little";
  scaler.tick(at(30));
  EXPECT_EQ(house.scripted->rate, 2.0);
  EXPECT_EQ(scaler.next_tick(), at(40));
  for (int i = 0; i < 30; ++i) scaler.arrived(Instant());
  scaler.tick(at(40));
  EXPECT_EQ(house.scripted->rate, 3.0) << "42 in 14 seconds";
}

TEST(PlanPeriods, ANodeThatGoesOrComesBackIsPlannedForAtOnce) {
  House house(Mode::Enforce, Span::max(), {{NodeId(0), "", "", 4, {}}, {NodeId(1), "", "", 4, {}}});
  auto& scaler = *house.scaler;
  scaler.node_is(NodeId(1), true, at(2));
  EXPECT_EQ(scaler.next_tick(), at(10)) << "nothing new";
  scaler.node_is(NodeId(1), false, at(3));
  ASSERT_EQ(scaler.next_tick(), at(3));
  for (int i = 0; i < 6; ++i) scaler.arrived(Instant());
  scaler.tick(at(3));
  EXPECT_EQ(house.scripted->rate, 2.0) << "no period is over yet: since its begin";
  EXPECT_EQ(scaler.next_tick(), at(10)) << "the next period is not put off";
  for (int i = 0; i < 24; ++i) scaler.arrived(Instant());
  scaler.tick(at(10));
  EXPECT_EQ(house.scripted->rate, 3.0) << "what came before the node went, too";
  for (int i = 0; i < 9; ++i) scaler.arrived(Instant());
  scaler.node_is(NodeId(1), true, at(11));
  scaler.tick(at(11));
  EXPECT_EQ(house.scripted->rate, 3.0) << "a second of a period says little";
  EXPECT_EQ(scaler.next_tick(), at(20));
  scaler.tick(at(20));
  EXPECT_EQ(house.scripted->rate, 0.9);
}

TEST(PlanPeriods, WhereSomethingIsShedOneThatBeginsToServeIsPlannedForAtOnce) {
  for (const double weight : {1.0, 0.5}) {
    House house;
    house.driver.serves_at_once = false;
    house.scripted->weights = {{ClassId(0), PoolId(0), weight}};
    house.want({0, 0, 2}, 10);
    ASSERT_EQ(house.driver.states.size(), 2U);
    house.scaler->up(InstanceId(1), at(12));
    EXPECT_EQ(house.scaler->next_tick(), at(20));
    house.scaler->serving(InstanceId(1), at(13));
    EXPECT_EQ(house.scaler->next_tick(), weight < 1.0 ? at(13) : at(20));
  }
}

TEST(PlanPeriods, AsksAtOnceWhenWhatServedHasDiedAndWhenAFailedStartMayBeTriedAgain) {
  House house;
  house.want({1, 0, 0}, 10);
  house.scaler->up(InstanceId(1), at(30));
  house.scaler->tick(at(31));
  EXPECT_EQ(house.scaler->next_tick(), at(41)) << "when the period ends";
  house.driver.states[1] = Driver::State::Dead;
  house.scaler->died(InstanceId(1), at(35));
  EXPECT_EQ(house.scaler->next_tick(), at(35));
  house.scaler->tick(at(35));
  ASSERT_EQ(house.driver.states.size(), 3U);
  house.driver.states[2] = Driver::State::Dead;
  house.scaler->died(InstanceId(2), at(36));
  EXPECT_EQ(house.scaler->next_tick(), at(41)) << "the pause is longer";
  house.scaler->tick(at(41));
  EXPECT_EQ(house.scaler->next_tick(), at(46));
}

TEST(PlanPeriods, ASurgeIsPlannedForAtOnceByItsOwnRate) {
  House house(Mode::Enforce, Span::max(), {}, 2.0);
  auto& scaler = *house.scaler;
  const auto arrive = [&](int from_ms, int until_ms, int each_ms) {
    for (int t = from_ms; t < until_ms; t += each_ms) scaler.arrived(Instant() + Span::ms(t));
  };
  arrive(0, 10'000, 100);
  EXPECT_EQ(scaler.next_tick(), at(10)) << "the first period has nothing to exceed";
  scaler.tick(at(10));
  EXPECT_EQ(house.scripted->rate, 10.0);
  arrive(10'000, 14'000, 40);
  EXPECT_EQ(scaler.next_tick(), at(20)) << "25 a second are more than twice as many, but may be chance";
  arrive(14'000, 16'000, 10);
  ASSERT_LE(scaler.next_tick(), at(16.7)) << "a sixth of a period at ten times the rate may not";
  const double asked_at = (scaler.next_tick() - Instant()).seconds();
  scaler.tick(scaler.next_tick());
  EXPECT_GT(house.scripted->rate, 40.0) << "not of the whole period, which begins calmly";
  EXPECT_EQ(scaler.next_tick(), at(20)) << "the next period is not put off";
  arrive(static_cast<int>(asked_at * 1000) + 10, 20'000, 10);
  EXPECT_EQ(scaler.next_tick(), at(20)) << "it goes on as planned for";
  scaler.tick(at(20));
  EXPECT_GT(house.scripted->rate, 40.0);
  scaler.tick(at(30));
  EXPECT_LT(house.scripted->rate, 40.0);
}

TEST(PlanPeriods, ASurgeIsNoReasonToPlanUnlessAskedFor) {
  House house;
  for (int t = 0; t < 10; ++t) house.scaler->arrived(at(t));
  house.scaler->tick(at(10));
  for (int t = 0; t < 9'000; ++t) house.scaler->arrived(at(10 + t / 1000.0));
  EXPECT_EQ(house.scaler->next_tick(), at(20));
}

}  // namespace
}  // namespace wattle::control::plan_rig
