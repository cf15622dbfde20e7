#include "managers/tiers.h"

#include <gtest/gtest.h>

#include "managers/hierarchy.h"
#include "managers/managers_rig_test.h"

namespace wattle::managers {
namespace {

/// The rig's classes, each of a loose tier and one whose TBT is `share` of it.
plan::LoadTable tiered_table(double share) {
  auto table = formula_table();
  std::vector<plan::ProfiledClass> classes;
  for (const auto& one : table.classes) {
    auto& loose = classes.emplace_back(one);
    loose.name += "/loose";
    auto& strict = classes.emplace_back(one);
    strict.name += "/strict";
    strict.limits.tbt = Span::from_seconds(one.limits.tbt.seconds() * share);
  }
  table.classes = std::move(classes);
  table.tiers = 2;
  return table;
}

/// The order for a peak of so many requests per second of class L's tiers.
ClusterOrder order_for(const plan::LoadTable& table, double loose, double strict,
                       const std::map<int, MegaHertz>& lowest_clocks = {}) {
  const PoolMap map(table, 0, lowest_clocks);
  ClusterOptions options;
  options.nodes = 40;
  ClusterManager manager(table, map, options, Span());
  manager.history().begin_with({{0.0}, {0.0}, {0.0}, {0.0}, {loose}, {strict}});
  return *manager.order(Instant());
}

TEST(Tiers, WhatAPoolCannotTakeGoesToStricterOnesOnly) {
  const auto table = tiered_table(0.45);
  const PoolMap map(table, 0);
  ASSERT_EQ(map.pools(), 6U);
  for (std::size_t p = 0; p < map.pools(); ++p) {
    EXPECT_GT(map.next(p), p);
    EXPECT_EQ(map.next(p) % 2, 1U) << "strict, or none";
  }
  const auto problem = map.problem(std::vector<double>(6, 1.0), 8, Watts());
  EXPECT_EQ(problem.classes[4].load_in_next, 1.0) << "the same requests";
  EXPECT_EQ(problem.classes[1].load_in_next, plan::load_in(table.classes[1], table.classes[3]));
  EXPECT_EQ(PoolMap(table, 2).pools(), 4U) << "sizes share pools, tiers do not";
  EXPECT_EQ(PoolMap(table, 2).pool_of(4), 2U);
  EXPECT_EQ(PoolMap(table, 2).pool_of(5), 3U);
}

TEST(Tiers, ClusterKeepsThemApartWhereThatTakesLess) {
  const auto table = tiered_table(0.45);
  const double node = node_carries(table, 4);
  const auto order = order_for(table, 4.0 * node, 0.1 * node);
  EXPECT_GE(order.gpus[4], 32) << order.tiers;
  EXPECT_GT(order.gpus[5], 0);
  EXPECT_LT(order.forwarded[4], 1.0);
  EXPECT_NE(order.tiers.find("L/strict: 2 pools of 2 tiers"), std::string::npos) << order.tiers;
}

TEST(Tiers, ClusterSharesOnePoolWhereApartTakesMore) {
  const auto table = tiered_table(1.0);
  const auto order = order_for(table, 0.02, 0.02);
  EXPECT_EQ(order.gpus[4], 0) << order.tiers;
  EXPECT_GT(order.gpus[5], 0);
  EXPECT_EQ(order.forwarded[4], 1.0);
  EXPECT_NE(order.tiers.find("L/strict: one pool of 2 tiers"), std::string::npos) << order.tiers;
  EXPECT_NEAR(order.load_per_s[5], 0.04, 1e-9) << "of both";
}

TEST(Tiers, ComparedAtTheClocksThatInstancesAreGiven) {
  const auto table = tiered_table(0.45);
  const double node = node_carries(table, 4);
  const auto apart_w = [&](const std::map<int, MegaHertz>& lowest) {
    const std::string said = order_for(table, 1.5 * node, 0.1 * node, lowest).tiers;
    const auto at = said.rfind(", apart ");
    EXPECT_NE(at, std::string::npos) << said;
    return at == std::string::npos ? 0.0 : std::stod(said.substr(at + 8));
  };
  const double any = apart_w({});
  EXPECT_GT(apart_w({{2, MegaHertz(1980)}, {4, MegaHertz(1980)}, {8, MegaHertz(1980)}}), 1.05 * any);
  EXPECT_EQ(apart_w({{2, MegaHertz(800)}, {16, MegaHertz(1980)}}), any)
      << "nothing that it would have chosen is left out";
}

TEST(Tiers, RequestsGoToTheirTiersPoolAndNeverToALooserOneThatIsNotTheLast) {
  const auto table = std::make_shared<const plan::LoadTable>(tiered_table(0.45));
  const double node = node_carries(*table, 4);
  HierarchyOptions options;
  options.cluster.nodes = 40;
  options.past = {{0.0}, {0.0}, {0.0}, {0.0}, {4.0 * node}, {0.6 * node}};
  Hierarchy planner(table, shapes(), options);
  std::vector<double> rates{0.0, 0.0, 0.0, 0.0, 4.0 * node, 0.6 * node};
  std::vector<FleetMember> members;
  policy::ScalingView view{.now = Instant(), .rate_per_s = rates, .fleet = {}, .members = members};
  const Plan plan = planner.plan(view);
  ASSERT_FALSE(plan.levels.empty());
  EXPECT_NE(plan.levels.front().detail.find("W; one pool"), std::string::npos) << "both sides are stated";
  double strict = 0.0, own = 0.0;
  for (const PoolWeight& w : plan.weights) {
    if (w.request_class == ClassId(5)) {
      EXPECT_EQ(w.pool.value() % 2, 1) << "no looser pool";
      strict += w.weight;
    }
    if (w.request_class == ClassId(4) && w.pool == PoolId(4)) own += w.weight;
  }
  EXPECT_NEAR(strict, 1.0, 1e-9);
  EXPECT_GT(own, 0.5);
}

}  // namespace
}  // namespace wattle::managers
