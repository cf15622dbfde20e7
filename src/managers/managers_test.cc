#include <gtest/gtest.h>

#include <cmath>

#include "managers/hierarchy.h"
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

TEST(ClusterManager, DemandAboveTheClusterServesWhatFitsAndSaysSo) {
  const auto table = formula_table();
  const PoolMap map(table, 0);
  ClusterOptions options;
  options.nodes = 3;
  ClusterManager manager(table, map, options, Span());
  manager.history().begin_with({{}, {}, {10 * node_carries(table, 2)}});
  const auto order = manager.order(Instant());
  EXPECT_EQ(order->gpus, (std::vector<int>{0, 0, 24}));
  EXPECT_NEAR(order->shed_per_s[2], 7 * node_carries(table, 2), 1e-9);
  EXPECT_NE(order->problem.find("3 nodes are too few"), std::string::npos) << order->problem;
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

FleetMember member(int id, std::size_t shape, int node, int pool) {
  FleetMember made;
  made.id = InstanceId(id);
  made.shape = shape;
  made.phase = Phase::Serving;
  made.pool = PoolId(pool);
  made.node = NodeId(node);
  made.gpus = {0};
  return made;
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

TEST(PoolManager, ReshardsWhereItPaysTheLargestSavingFirst) {
  const auto table = formula_table();
  const PoolMap map(table, 0);
  PoolOptions options;
  options.unused_gpu = Watts(70);
  options.reshard.weight_bytes = 138'000'000'000;
  const auto all_shapes = shapes();
  const PoolManager manager(PoolId(0), all_shapes, options);
  // A calm pool on two TP8 nodes: smaller shards save; half of them at once.
  const auto load = map.problem({1.4 * node_carries(table, 0), 0, 0}, 0, Watts()).classes[0];
  const std::vector<FleetMember> members = {member(0, 0, 0, 0), member(1, 0, 1, 0)};
  const auto best = manager.best(load, 16).value();
  EXPECT_LT(manager.power(load, best, 16)->value(), manager.power(load, {{8, 2}}, 16)->value());
  const auto decision = manager.decide(load, 16, members);
  ASSERT_EQ(decision.steps.size(), 1U);
  EXPECT_EQ(decision.steps[0].kind, StepKind::Reshard);
  EXPECT_EQ(decision.steps[0].from.size(), 1U);
  EXPECT_GT(decision.steps[0].cost.time, options.reshard.sync);
  EXPECT_EQ(decision.wanted.at(8), 1);  // the other one waits for the next epoch
  int gpus = 0;
  for (const auto& [tp, count] : decision.wanted) gpus += tp * count;
  EXPECT_LE(gpus, 16);
  // A change that costs more than it saves in an epoch is left.
  PoolOptions expensive = options;
  expensive.reshard.sync = Span::s(100'000);
  EXPECT_TRUE(PoolManager(PoolId(0), all_shapes, expensive).decide(load, 16, members).steps.empty());
  options.reshards = false;
  EXPECT_TRUE(PoolManager(PoolId(0), all_shapes, options).decide(load, 16, members).steps.empty());
}

TEST(PoolManager, EmptiesANodeWhoseInstancesFitBesideOthers) {
  const auto table = formula_table();
  PoolOptions options;
  options.unused_gpu = Watts(70);
  options.epoch = Span::s(300);
  const auto on = [](int id, int node, std::int32_t gpu) {
    auto made = member(id, 2, node, 0);
    made.gpus = {gpu, gpu + 1};
    return made;
  };
  std::vector<FleetMember> members = {on(0, 0, 0), on(1, 0, 2), on(2, 0, 4), on(3, 1, 0)};
  const std::vector<NodeView> nodes = {{NodeId(0), 8, 2, true}, {NodeId(1), 7, 5, true}, {NodeId(2), 8, 8, true}};
  const auto& one = table.classes[1];
  const auto decide = [&](const PoolOptions& with, std::span<const FleetMember> all, std::span<const NodeView> views) {
    const PoolManager manager(PoolId(0), shapes(), with);
    const double load = 3.9 * plan::most_load(one, 2, MegaHertz(1980));  // no layout of 8 GPUs carries it but four TP2
    return manager.decide({one.name, load, one.limits, one.profiles, 1.0}, 8, members, {all, views});
  };
  const auto decision = decide(options, members, nodes);
  ASSERT_EQ(decision.steps.size(), 1U) << decision.reason;
  EXPECT_EQ(decision.steps[0].kind, StepKind::Move);
  EXPECT_EQ(decision.steps[0].from, std::vector{InstanceId(3)});
  EXPECT_EQ(decision.steps[0].node, NodeId(0));
  EXPECT_EQ(decision.wanted, (Layout{{2, 4}}));
  // Not while another pool's instance keeps the node in use, not to a node that is down or full, not for less than it
  // costs.
  auto all = members;
  all.push_back(member(4, 2, 1, 1));
  EXPECT_TRUE(decide(options, all, nodes).steps.empty());
  auto full = nodes;
  full[0].free_gpus = 1;
  EXPECT_TRUE(decide(options, members, full).steps.empty());
  auto down = nodes;
  down[0].up = false;
  EXPECT_TRUE(decide(options, members, down).steps.empty());
  options.unused_gpu = Watts(0.5);
  EXPECT_TRUE(decide(options, members, nodes).steps.empty());
}

TEST(PoolManager, ReshardsOntoFreeGpusOfTheNode) {
  const auto table = formula_table();
  const auto& one = table.classes[1];
  PoolOptions options;
  options.unused_gpu = Watts(70);
  const PoolManager manager(PoolId(0), shapes(), options);
  const std::vector<FleetMember> members = {member(0, 1, 0, 0)};
  const double load = 1.2 * plan::most_load(one, 4, MegaHertz(1980));
  const plan::ShardClass wanted{one.name, load, one.limits, one.profiles, 1.0};
  const auto step = [&](int free) {
    const std::vector<NodeView> nodes = {{NodeId(0), 8, free, true}};
    return manager.decide(wanted, 8, members, {members, nodes}).steps;
  };
  const Layout best = manager.best(wanted, 8).value();
  ASSERT_EQ(best.count(4) == 0 ? 0 : best.at(4), 0) << "the present one is not part of it";
  const auto taken = step(4);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].from, std::vector{InstanceId(0)});
  int gpus = 0;
  for (const std::size_t shape : taken[0].to) gpus += shapes()[shape].gpus;
  EXPECT_GT(gpus, 4);
  for (const auto& one_step : step(0)) {
    int within = 0;
    for (const std::size_t shape : one_step.to) within += shapes()[shape].gpus;
    EXPECT_LE(within, 4);
  }
}

TEST(PoolManager, PassesOnTheClocksThatCarryTheLoad) {
  const auto table = formula_table();
  const auto& one = table.classes[1];
  PoolOptions options;
  options.margin = 0.1;
  const PoolManager manager(PoolId(3), shapes(), options);
  const auto range = [&](double nodes) {
    const double load = nodes * node_carries(table, 1);
    return *manager.clocks({one.name, load, one.limits, one.profiles, 1.0}, {{8, 2}, {4, 0}});
  };
  EXPECT_EQ(range(1.0).pool, PoolId(3));
  EXPECT_EQ(range(1.9).least, MegaHertz(1980)) << "the margin counts";
  EXPECT_EQ(range(5.0).least, MegaHertz(1980)) << "as much as they carry";
  const auto calm = range(0.5);
  EXPECT_EQ(calm.most, MegaHertz(1980));
  EXPECT_LT(calm.least, MegaHertz(1980));
  const auto at = [&](MegaHertz clock) { return 2 * 0.9 * plan::most_load(one, 8, clock); };
  EXPECT_GE(at(calm.least), 0.5 * node_carries(table, 1));
  for (const auto& profile : one.profiles) {
    if (profile.clock >= calm.least) continue;
    EXPECT_LT(at(profile.clock), 0.5 * node_carries(table, 1));
  }
  EXPECT_FALSE(manager.clocks({one.name, 1.0, one.limits, one.profiles, 1.0}, {}).has_value());
}

TEST(PoolManager, MergesShardsWhenTheyNoLongerCarryTheLoad) {
  const auto table = formula_table();
  const PoolMap map(table, 0);
  PoolOptions options;
  options.subset = 1.0;
  const PoolManager manager(PoolId(0), shapes(), options);
  const double most = std::max(2 * plan::most_load(table.classes[2], 4, MegaHertz(1980)),
                               4 * plan::most_load(table.classes[2], 2, MegaHertz(1980)));
  std::vector<FleetMember> members;
  for (int i = 0; i < 4; ++i) members.push_back(member(i, 2, 0, 0));
  auto load = map.problem({0, 0, most}, 0, Watts()).classes[2];
  const double carried = 4 * plan::most_load(table.classes[2], 2, MegaHertz(1980));
  if (carried >= most) load.load_per_s = carried * 1.001;
  const auto decision = manager.decide(load, 8, members);
  if (!decision.steps.empty()) {
    EXPECT_STREQ(decision.reason, "the present layout does not carry the load");
  }
}

/// Forty nodes; the classes' past peaks are what 2.5, 1.75 and half a node carry.
HierarchyOptions three_classes(const plan::LoadTable& table) {
  HierarchyOptions options;
  options.cluster.nodes = 40;
  options.past = {{2.5 * node_carries(table, 0)}, {1.75 * node_carries(table, 1)}, {0.5 * node_carries(table, 2)}};
  return options;
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

TEST(Hierarchy, PlansForWhatRequestsTurnOutToBe) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  const auto nodes_after = [&](ClassId was) {
    HierarchyOptions options = three_classes(*table);
    options.cluster.rule = NodeRule::Up;
    Hierarchy hierarchy(table, shapes(), options);
    policy::ScalingView view;
    std::vector<double> rates = {0.0};
    view.rate_per_s = rates;
    (void)hierarchy.plan(view);
    TurnedOut finished;
    finished.add(ClassId(0), was, 10'000);
    rates = {0.9 * node_carries(*table, 0), 0.0, 0.0};
    Plan plan;
    for (int minute = 1; minute <= 30; ++minute) {
      view.now = Instant() + Span::s(60 * minute);
      view.rate_per_s = rates;
      view.turned_out = minute == 1 ? &finished : nullptr;
      plan = hierarchy.plan(view);
    }
    return plan.levels.at(0).passed.at(0).gpus / 8;
  };
  EXPECT_EQ(nodes_after(ClassId(0)), 1);
  const double heavier = node_carries(*table, 0) / node_carries(*table, 2);
  ASSERT_GT(heavier, 1.5);
  EXPECT_EQ(nodes_after(ClassId(2)), static_cast<int>(std::ceil(0.9 * heavier)));
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

int gpus_of(const Plan& plan) {
  int gpus = 0;
  for (const PlanTarget& target : plan.instances) gpus += shapes()[target.shape].gpus * target.count;
  return gpus;
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
