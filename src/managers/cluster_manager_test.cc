#include <gtest/gtest.h>

#include "managers/cluster_manager.h"
#include "managers/managers_rig_test.h"

namespace wattle::managers {
namespace {

TEST(LoadHistory, RecentPeakUntilASeasonIsKnownThenTheTemplate) {
  LoadForecastOptions options;
  options.slot = Span::s(300);
  options.season = Span::s(1200);
  LoadHistory history(1, options);
  EXPECT_EQ(history.peak(Instant(), Instant() + Span::s(600)), std::vector<double>{0.0});
  const double season[] = {1.0, 5.0, 2.0, 3.0};
  for (int i = 0; i < 3; ++i) {
    history.add(std::vector<double>{season[i] / 2}, Instant() + Span::s(300 * i + 60));
    history.add(std::vector<double>{season[i]}, Instant() + Span::s(300 * i + 300));
  }
  // Three slots of four: the highest of the last two.
  EXPECT_EQ(history.peak(Instant() + Span::s(900), Instant() + Span::s(1500))[0], 5.0);
  EXPECT_EQ(history.present()[0], 5.0);
  history.add(std::vector<double>{season[3]}, Instant() + Span::s(1200));
  EXPECT_EQ(history.present()[0], 3.0);
  // The next season's slots 0 and 1 with a neighbour each side.
  options.quantile = 1.0;
  EXPECT_EQ(history.peak(Instant() + Span::s(1500), Instant() + Span::s(1800))[0], 5.0);
}

TEST(LoadHistory, ASlotThatHasJustBegunSaysLittle) {
  LoadForecastOptions options;
  options.slot = Span::s(300);
  LoadHistory history(1, options);
  history.begin_with({{7.0}});
  const auto next = [&](int from_s) {
    return history.peak(Instant() + Span::s(from_s), Instant() + Span::s(from_s + 300))[0];
  };
  history.add(std::vector<double>{2.0}, Instant() + Span::s(60));
  EXPECT_EQ(next(300), 7.0) << "one minute does not say that a fleet is three times too large";
  history.add(std::vector<double>{3.0}, Instant() + Span::s(300));
  EXPECT_EQ(next(300), 3.0) << "a whole slot does";
  history.add(std::vector<double>{1.0}, Instant() + Span::s(360));
  EXPECT_EQ(next(600), 3.0);
  history.add(std::vector<double>{1.0}, Instant() + Span::s(660));
  EXPECT_EQ(next(900), 1.0);
}

TEST(ClusterManager, FloorRuleSendsTheRestOnAndRoundsUpTheLargest) {
  const auto table = formula_table();
  const PoolMap map(table, 0);
  ClusterOptions options;
  options.nodes = 40;
  ClusterManager manager(table, map, options, Span::s(105));
  const double a = node_carries(table, 0), b = node_carries(table, 1), c = node_carries(table, 2);
  manager.history().begin_with({{2.5 * a}, {1.75 * b}, {0.5 * c}});
  const auto order = manager.order(Instant());
  ASSERT_TRUE(order.has_value());
  // Half a node of S is half a node of M: 2.25 of them, the quarter to L.
  EXPECT_EQ(order->gpus, (std::vector<int>{16, 16, 8}));
  EXPECT_NEAR(order->forwarded[0], 0.5 / 2.5, 1e-9);
  EXPECT_NEAR(order->forwarded[1], 0.25 / 2.25, 1e-9);
  EXPECT_EQ(order->forwarded[2], 0.0);
  EXPECT_NEAR(order->load_per_s[2], 0.75 * c, 1e-9);
  EXPECT_TRUE(order->problem.empty());
  // The next order comes so long before its epoch as a node takes to start.
  EXPECT_FALSE(manager.order(Instant() + Span::s(1800 - 106)).has_value());
  const auto next = manager.order(Instant() + Span::s(1800 - 105));
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->from, Instant() + Span::s(1800));
  EXPECT_EQ(next->until, Instant() + Span::s(3600));
}

TEST(ClusterManager, OutOfTurnMoreThanWasOrderedForIsOrderedForAtOnce) {
  const auto table = formula_table();
  const PoolMap map(table, 0);
  const double carried = node_carries(table, 2);
  for (const bool out_of_turn : {true, false}) {
    ClusterOptions options;
    options.nodes = 40;
    options.out_of_turn = out_of_turn;
    ClusterManager manager(table, map, options, Span::s(105));
    manager.history().begin_with({{0.0}, {0.0}, {0.5 * carried}});
    ASSERT_EQ(manager.order(Instant())->gpus[2], 8);
    const auto hear = [&](double nodes, int at_s) {
      manager.history().add(std::vector{0.0, 0.0, nodes * carried}, Instant() + Span::s(at_s));
      return manager.order(Instant() + Span::s(at_s));
    };
    EXPECT_FALSE(hear(0.4, 60).has_value());
    const auto order = hear(3.5, 75);
    ASSERT_EQ(order.has_value(), out_of_turn);
    if (!order) continue;
    EXPECT_EQ(order->gpus[2], 32);
    EXPECT_EQ(order->from, Instant() + Span::s(75));
    EXPECT_EQ(order->until, Instant() + Span::s(1800));
    EXPECT_FALSE(hear(3.4, 120).has_value()) << "ordered for already";
    ASSERT_EQ(hear(3.4, 1700)->from, Instant() + Span::s(1800)) << "the next epoch's, as ever";
    EXPECT_EQ(hear(5.5, 1710)->gpus[2], 48);
    EXPECT_EQ(hear(5.5, 1720)->from, Instant() + Span::s(1800)) << "and again, for what is known now";
  }
}

/// The first order for these loads, by class, on three nodes that start at once.
std::optional<ClusterOrder> order_of_three_nodes(const plan::LoadTable& table, std::vector<std::vector<double>> loads) {
  const PoolMap map(table, 0);
  ClusterOptions options;
  options.nodes = 3;
  ClusterManager manager(table, map, options, Span());
  manager.history().begin_with(std::move(loads));
  return manager.order(Instant());
}

TEST(ClusterManager, DemandAboveTheClusterServesWhatFitsAndSaysSo) {
  const auto table = formula_table();
  const auto order = order_of_three_nodes(table, {{}, {}, {10 * node_carries(table, 2)}});
  EXPECT_EQ(order->gpus, (std::vector<int>{0, 0, 24}));
  EXPECT_NEAR(order->shed_per_s[2], 7 * node_carries(table, 2), 1e-9);
  EXPECT_NE(order->problem.find("3 nodes are too few"), std::string::npos) << order->problem;
}

TEST(ClusterManager, WhatIsNotCarriedSaysWhoseLoadItIs) {
  const auto table = formula_table();
  const auto order = order_of_three_nodes(table, {{40 * node_carries(table, 0)}, {}, {1.0}});
  ASSERT_GT(order->shed_per_s[2], 1.0);
  EXPECT_NE(order->problem.find("/s of L (1/s arriving, "), std::string::npos) << order->problem;
  EXPECT_NE(order->problem.find("/s as load sent on from S) are not carried: 3 nodes are too few"), std::string::npos)
      << order->problem;
}

TEST(ClusterManager, AClassWithoutConfigurationSaysWhichObjectiveAndWhatComesNearest) {
  auto table = formula_table();
  table.classes[2].limits.ttft = Span::ms(1);
  const PoolMap map(table, 0);
  ClusterManager manager(table, map, {}, Span());
  manager.history().begin_with({{}, {}, {1.0}});
  const auto order = manager.order(Instant());
  EXPECT_EQ(order->shed_per_s[2], 1.0);
  EXPECT_NE(order->problem.find("no configuration meets its objectives, nearest is TP8 at 1980 MHz with TTFT"),
            std::string::npos)
      << order->problem;
}

TEST(ClusterManager, TakesInWhatIsUsefulBeyondTheLimitsAndShedsTheRest) {
  auto table = formula_table();
  const double within = node_carries(table, 2);
  for (auto& profile : table.classes[2].profiles) {  // at the highest clock up to half as much again
    if (profile.clock != MegaHertz(1980)) continue;
    auto beyond = profile.points.back();
    beyond.load_per_s *= 1.5;
    beyond.tbt = Span::s(1);
    profile.points.push_back(beyond);
  }
  const PoolMap map(table, 0);
  ClusterOptions options;
  options.nodes = 2;
  for (const NodeRule rule : {NodeRule::Down, NodeRule::Whole}) {
    options.rule = rule;
    const auto order_for = [&](double nodes) {
      ClusterManager manager(table, map, options, Span());
      manager.history().begin_with({{0.0}, {0.0}, {nodes * within}});
      return *manager.order(Instant());
    };
    const auto some = order_for(2.4);
    EXPECT_EQ(some.shed_per_s[2], 0.0);
    EXPECT_NEAR(some.load_per_s[2], 2.4 * within, 0.03 * within);
    EXPECT_NE(some.problem.find("more than keeps the objectives"), std::string::npos) << some.problem;
    const auto much = order_for(5.0);
    EXPECT_GT(much.load_per_s[2], 2.9 * within);
    EXPECT_LT(much.load_per_s[2], 3.3 * within) << "in smaller instances two nodes carry a little more";
    EXPECT_NEAR(much.load_per_s[2] + much.shed_per_s[2], 5.0 * within, 1e-3 * within);
    EXPECT_TRUE(order_for(1.0).problem.empty());
  }
}

}  // namespace
}  // namespace wattle::managers
