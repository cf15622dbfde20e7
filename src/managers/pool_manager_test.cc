#include <gtest/gtest.h>

#include "managers/managers_rig_test.h"
#include "managers/pool_manager.h"
#include "managers/pool_map.h"

namespace wattle::managers {
namespace {

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

}  // namespace
}  // namespace wattle::managers
