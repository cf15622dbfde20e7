#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "managers/hierarchy.h"
#include "managers/managers_rig_test.h"

namespace wattle::managers {
namespace {

/// Forty nodes; the classes' past peaks are what 2.5, 1.75 and half a node carry.
HierarchyOptions three_classes(const plan::LoadTable& table) {
  HierarchyOptions options;
  options.cluster.nodes = 40;
  options.past = {{2.5 * node_carries(table, 0)}, {1.75 * node_carries(table, 1)}, {0.5 * node_carries(table, 2)}};
  return options;
}

int gpus_of(const Plan& plan) {
  int gpus = 0;
  for (const PlanTarget& target : plan.instances) gpus += shapes()[target.shape].gpus * target.count;
  return gpus;
}

TEST(Hierarchy, StatesWhatEachLevelGotAndPassesAndWhereRequestsGo) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  Hierarchy hierarchy(table, shapes(), three_classes(*table));
  policy::ScalingView view;
  const std::vector<double> rates = {0.0};
  view.rate_per_s = rates;
  Plan plan = hierarchy.plan(view);
  EXPECT_EQ(plan.wanted(3), (std::vector<std::int32_t>{5, 0, 0}));
  ASSERT_EQ(plan.levels.size(), 4U);
  EXPECT_STREQ(plan.levels[0].name, "cluster");
  ASSERT_EQ(plan.levels[0].passed.size(), 3U);
  EXPECT_EQ(plan.levels[0].passed[1].gpus, 16);
  EXPECT_EQ(plan.levels[2].given->gpus, 16);
  EXPECT_EQ(plan.levels[2].given->until, Instant() + Span::s(1800));
  double sum = 0.0;
  for (const auto& weight : plan.weights) {
    if (weight.request_class == ClassId(0)) sum += weight.weight;
    if (weight.request_class == ClassId(0) && weight.pool == PoolId(0)) {
      EXPECT_NEAR(weight.weight, 0.8, 1e-9);
    }
  }
  EXPECT_NEAR(sum, 1.0, 1e-12);
  // Only the largest pool serves yet: all go there.
  const std::vector<FleetMember> members = {member(0, 0, 0, 2)};
  view.members = members;
  view.now = Instant() + Span::s(60);
  plan = hierarchy.plan(view);
  ASSERT_EQ(plan.weights.size(), 3U);
  for (const auto& weight : plan.weights) EXPECT_EQ(weight.pool, PoolId(2));
}

TEST(Hierarchy, BeginsWithTheLayoutThatItsNodesWereCountedFor) {
  auto of_one = formula_table();
  of_one.classes.resize(1);
  const auto table = std::make_shared<const plan::LoadTable>(std::move(of_one));
  HierarchyOptions options;
  options.cluster.nodes = 3;
  options.cluster.rule = NodeRule::Whole;
  options.pool.top_clock = false;
  // The three nodes carry that in small instances, not in three of eight GPUs.
  options.past = {{3.2 * node_carries(*table, 0)}};
  policy::ScalingView view;
  const std::vector<double> rates = {0.0};
  view.rate_per_s = rates;
  const auto begun = [&](const HierarchyOptions& with) { return Hierarchy(table, shapes(), with).plan(view); };
  const auto carried = [&](const Plan& plan) {
    double sum = 0.0;
    for (const PlanTarget& target : plan.instances) {
      sum += target.count * plan::most_load(table->classes[0], shapes()[target.shape].gpus, MegaHertz(1980));
    }
    return sum;
  };
  const Plan plan = begun(options);
  ASSERT_EQ(plan.levels[0].gpus, 24);
  EXPECT_LE(gpus_of(plan), 24);
  EXPECT_GE(carried(plan), options.past[0][0]);
  EXPECT_STREQ(plan.levels[1].reason, "split for the load that it is given for");
  const auto smaller = [](const PlanTarget& a, const PlanTarget& b) {
    return shapes()[a.shape].gpus < shapes()[b.shape].gpus;
  };
  EXPECT_TRUE(std::is_sorted(plan.instances.rbegin(), plan.instances.rend(), smaller)) << "or nodes may not hold all";

  HierarchyOptions one = options;
  one.pool.reshards = false;
  EXPECT_EQ(begun(one).wanted(3), (std::vector<std::int32_t>{3, 0, 0})) << "instances stay as they were started";
  one = options;
  one.past.clear();
  EXPECT_EQ(begun(one).wanted(3), (std::vector<std::int32_t>{1, 0, 0})) << "no load is known";
  const std::vector<FleetMember> members = {member(0, 0, 0, 0), member(1, 0, 1, 0)};
  view.members = members;
  EXPECT_EQ(begun(options).wanted(3), (std::vector<std::int32_t>{2, 0, 0})) << "they serve already";
}

TEST(Hierarchy, ACalmEpochTakesFewerNodesAndPoolsMerge) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  Hierarchy hierarchy(table, shapes(), three_classes(*table));
  policy::ScalingView view;
  std::vector<double> rates = {0.0};
  view.rate_per_s = rates;
  (void)hierarchy.plan(view);
  rates = {0.3 * node_carries(*table, 0), 0.1 * node_carries(*table, 1), 0.1 * node_carries(*table, 2)};
  Plan plan;
  for (int minute = 1; minute <= 30; ++minute) {
    view.now = Instant() + Span::s(60 * minute);
    view.rate_per_s = rates;
    plan = hierarchy.plan(view);
    if (minute < 30) {
      EXPECT_EQ(plan.wanted(3)[0], 5) << minute;
    }
  }
  EXPECT_EQ(plan.wanted(3), (std::vector<std::int32_t>{1, 0, 0}));
  EXPECT_EQ(plan.instances.at(0).pool, PoolId(2));
}

/// The first class's nodes after half an hour at nine tenths of what one carries, while so much has finished in each of
/// the first `minutes`.
int nodes_where(const TurnedOut& finished, int minutes, double gain) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  HierarchyOptions options = three_classes(*table);
  options.cluster.rule = NodeRule::Up;
  options.reserve.gain = gain;
  Hierarchy hierarchy(table, shapes(), options);
  policy::ScalingView view;
  std::vector<double> rates = {0.0};
  view.rate_per_s = rates;
  (void)hierarchy.plan(view);
  rates = {0.9 * node_carries(*table, 0), 0.0, 0.0};
  view.rate_per_s = rates;
  Plan plan;
  for (int minute = 1; minute <= 30; ++minute) {
    view.now = Instant() + Span::s(60 * minute);
    view.turned_out = minute <= minutes ? &finished : nullptr;
    plan = hierarchy.plan(view);
  }
  return plan.levels.at(0).passed.at(0).gpus / 8;
}

TEST(Hierarchy, OutOfTurnALayoutThatDoesNotCarryTheLoadIsChangedBeforeItsEpochEnds) {
  auto of_one = formula_table();
  of_one.classes.resize(1);
  const auto table = std::make_shared<const plan::LoadTable>(std::move(of_one));
  const double carried = node_carries(*table, 0);
  for (const bool out_of_turn : {true, false}) {
    HierarchyOptions options;
    options.cluster.epoch = Span::s(60);
    options.cluster.nodes = 1;
    options.cluster.rule = NodeRule::Whole;
    options.cluster.out_of_turn = options.pool.out_of_turn = out_of_turn;
    options.past = {{0.5 * carried}};
    Hierarchy hierarchy(table, shapes(), options);
    std::vector<double> rates = {0.0};
    std::vector<FleetMember> members;
    policy::ScalingView view;
    const auto ask = [&](double nodes, int at_s) {
      rates = {nodes * carried};
      view.rate_per_s = rates;
      view.now = Instant() + Span::s(at_s);
      view.members = members;
      const Plan plan = hierarchy.plan(view);
      members.clear();  // what it wants serves at once
      for (const PlanTarget& target : plan.instances) {
        for (int i = 0; i < target.count; ++i) {
          const int id = static_cast<int>(members.size());
          members.push_back(member(id, target.shape, id, 0));
        }
      }
      return gpus_of(plan);
    };
    ask(0.0, 0);
    for (int t = 60; t <= 300; t += 60) ask(0.4, t);  // 300: the pool's epoch
    EXPECT_EQ(ask(0.4, 310), 4);
    EXPECT_EQ(ask(1.0, 315), out_of_turn ? 8 : 4) << "the node has them";
    EXPECT_EQ(ask(1.0, 600), 8) << "the epoch ends";
  }
}

TEST(Hierarchy, OrdersComeIntoForceHoweverOftenItIsAsked) {
  const auto table = std::make_shared<const plan::LoadTable>(formula_table());
  auto options = three_classes(*table);
  options.cluster.epoch = Span::s(60);  // shorter than a node's start
  Hierarchy hierarchy(table, shapes(), options);
  const std::vector<double> rates = {0.0, 0.0, 0.1 * node_carries(*table, 2)};
  policy::ScalingView view;
  view.rate_per_s = rates;
  Plan plan = hierarchy.plan(view);
  ASSERT_EQ(gpus_of(plan), 40);
  for (int t = 20; t <= 1'200; t += 20) {
    view.now = Instant() + Span::s(t);
    plan = hierarchy.plan(view);
  }
  EXPECT_EQ(plan.levels[0].gpus, 8);
}

TEST(Hierarchy, PlansForWhatRequestsTurnOutToBe) {
  const auto nodes_after = [](ClassId was) {
    TurnedOut finished;
    finished.add(ClassId(0), was, 10'000);
    return nodes_where(finished, 1, 0.0);
  };
  EXPECT_EQ(nodes_after(ClassId(0)), 1);
  const plan::LoadTable table = formula_table();
  const double heavier = node_carries(table, 0) / node_carries(table, 2);
  ASSERT_GT(heavier, 1.5);
  EXPECT_EQ(nodes_after(ClassId(2)), static_cast<int>(std::ceil(0.9 * heavier)));
}

TEST(Hierarchy, KeepsMoreFreeWhereRequestsMissTheirObjectives) {
  TurnedOut finished;
  finished.add(ClassId(0), ClassId(0), 1000);
  finished.add_late(ClassId(0), 60);
  EXPECT_EQ(nodes_where(finished, 30, 0.0), 1);
  EXPECT_EQ(nodes_where(finished, 30, 0.2), 2);
}

/// What the plan checker holds against a hierarchy: no level exceeds what it was given.
void expect_within_mandates(const Plan& plan) {
  for (const PlanLevel& level : plan.levels) {
    if (level.given) {
      EXPECT_LE(level.gpus, level.given->gpus) << level.name;
    }
  }
  std::int64_t planned = 0, passed = 0;
  for (const PlanTarget& target : plan.instances) planned += std::int64_t{shapes()[target.shape].gpus} * target.count;
  for (const Mandate& mandate : plan.passed) passed += mandate.gpus;
  EXPECT_LE(passed, planned);
}

TEST(Hierarchy, NodesThatComeBeforeTheirEpochAreWithinTheMandate) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  auto options = three_classes(*table);
  options.past.back() = {2.5 * node_carries(*table, 2)};
  Hierarchy hierarchy(table, shapes(), options);
  policy::ScalingView view;
  std::vector<double> rates = {0.0};
  view.rate_per_s = rates;
  expect_within_mandates(hierarchy.plan(view));
  rates = {0.0, 0.0, 9.5 * node_carries(*table, 2)};
  std::int32_t before = 0, after = 0;
  for (int minute = 1; minute <= 31; ++minute) {
    view.now = Instant() + Span::s(60 * minute);
    view.rate_per_s = rates;
    const Plan plan = hierarchy.plan(view);
    expect_within_mandates(plan);
    (minute < 28 ? before : after) = plan.wanted(3)[0];
  }
  EXPECT_GT(after, before);
}

TEST(Hierarchy, APoolLeavesGpusOutAndTakesThemBack) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  auto options = three_classes(*table);
  options.past = {{0.0}, {0.0}, {0.9 * node_carries(*table, 2)}};
  Hierarchy hierarchy(table, shapes(), options);
  policy::ScalingView view;
  std::vector<double> rates = {0.0};
  view.rate_per_s = rates;
  EXPECT_EQ(hierarchy.plan(view).wanted(3), (std::vector<std::int32_t>{1, 0, 0}));
  std::vector<FleetMember> members = {member(0, 0, 0, 2)};
  const auto gpus_after = [&](int minutes, double share) {
    rates = {0.0, 0.0, share * node_carries(*table, 2)};
    Plan plan;
    for (int i = 0; i < minutes; ++i) {
      view.now = view.now + Span::s(60);
      view.members = members;
      view.rate_per_s = rates;
      plan = hierarchy.plan(view);
      expect_within_mandates(plan);
      // Done at once, whether by a re-shard or by counts alone.
      members.clear();
      for (const PlanTarget& target : plan.instances) {
        for (std::int32_t n = 0; n < target.count; ++n) {
          members.push_back(member(static_cast<int>(members.size()) + 100 * (i + 1), target.shape, 0, 2));
        }
      }
    }
    int gpus = 0;
    for (const FleetMember& m : members) gpus += shapes()[m.shape].gpus;
    return gpus;
  };
  const int calm = gpus_after(12, 0.05);
  EXPECT_LT(calm, 8);
  EXPECT_GT(gpus_after(12, 0.8), calm);
}

/// Of a class, over all pools.
double taken_in(const Plan& plan, int request_class) {
  double sum = 0.0;
  for (const auto& weight : plan.weights) sum += weight.request_class == ClassId(request_class) ? weight.weight : 0.0;
  return sum;
}

TEST(Hierarchy, WhatTheClusterDoesNotCarryIsShedByClass) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  auto options = three_classes(*table);
  options.cluster.nodes = 3;
  const double node = node_carries(*table, 2);
  options.past = {{0.0}, {0.0}, {6.0 * node}};
  Hierarchy hierarchy(table, shapes(), options);
  policy::ScalingView view;
  std::vector<double> rates = {0.0};
  view.rate_per_s = rates;
  const Plan first = hierarchy.plan(view);
  EXPECT_EQ(first.wanted(3), (std::vector<std::int32_t>{3, 0, 0}));
  EXPECT_NEAR(taken_in(first, 2), 0.5, 1e-9) << "by the peak expected, as long as no load was seen";
  const auto next = [&](double nodes) {
    const std::vector<FleetMember> members = {member(0, 0, 0, 2), member(1, 0, 1, 2), member(2, 0, 2, 2)};
    rates = {0.0, 0.0, nodes * node};
    view.now = view.now + Span::s(60);
    view.rate_per_s = rates;
    view.members = members;
    return taken_in(hierarchy.plan(view), 2);
  };
  EXPECT_NEAR(next(4.0), 0.75, 1e-9) << "by the load there is";
  EXPECT_NEAR(next(2.0), 1.0, 1e-9);
}

TEST(Hierarchy, ANodeThatGoesDownIsPlannedWithoutAtOnce) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  auto options = three_classes(*table);
  options.cluster.nodes = 3;
  options.past = {{0.0}, {0.0}, {2.5 * node_carries(*table, 2)}};
  Hierarchy hierarchy(table, shapes(), options);
  policy::ScalingView view;
  const std::vector<double> rates = {0.0, 0.0, 2.5 * node_carries(*table, 2)};
  view.rate_per_s = rates;
  EXPECT_EQ(hierarchy.plan(view).wanted(3), (std::vector<std::int32_t>{3, 0, 0}));
  std::vector<NodeView> nodes = {{NodeId(0), 8, 0, true}, {NodeId(1), 8, 0, true}, {NodeId(2), 8, 8, false}};
  const std::vector<FleetMember> members = {member(0, 0, 0, 2), member(1, 0, 1, 2)};
  view.members = members;
  view.nodes = nodes;
  view.now = Instant() + Span::s(60);
  Plan plan = hierarchy.plan(view);
  EXPECT_EQ(gpus_of(plan), 16);
  EXPECT_NEAR(taken_in(plan, 2), 0.8, 1e-9);
  nodes[2].up = true;
  view.now = Instant() + Span::s(120);
  plan = hierarchy.plan(view);
  EXPECT_EQ(gpus_of(plan), 24);
  EXPECT_NEAR(taken_in(plan, 2), 1.0, 1e-9);
}

TEST(Hierarchy, WhatAPoolLeftOutStaysOutInTheNextEpoch) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  auto options = three_classes(*table);
  options.pool.unused_gpu = Watts(1.0);  // far less than an idle instance's
  options.past = {{0.0}, {0.0}, {0.9 * node_carries(*table, 2)}};
  Hierarchy hierarchy(table, shapes(), options);
  policy::ScalingView view;
  const std::vector<double> rates = {0.0, 0.0, 0.05 * node_carries(*table, 2)};
  view.rate_per_s = rates;
  std::vector<FleetMember> members = {member(0, 0, 0, 2)};
  (void)hierarchy.plan(view);
  int least = 8;
  for (int minute = 1; minute <= 120; ++minute) {
    view.now = Instant() + Span::s(60 * minute);
    view.members = members;
    const Plan plan = hierarchy.plan(view);
    std::vector<FleetMember> next;
    for (const PlanTarget& target : plan.instances) {
      for (std::int32_t n = 0; n < target.count; ++n) next.push_back(member(minute * 100 + n, target.shape, 0, 2));
    }
    EXPECT_LE(gpus_of(plan), least) << minute << ": a node is given again with every epoch";
    least = gpus_of(plan);
    members = std::move(next);
  }
  EXPECT_LT(least, 8);
}

}  // namespace
}  // namespace wattle::managers
