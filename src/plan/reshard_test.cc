#include "plan/reshard.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "plan/matching.h"

namespace wattle::plan {
namespace {

constexpr std::int64_t kModel = 8 * 15'000'000'000;  // tau = 1/8 of it at 300 GB/s = 50 ms
constexpr Span kTau = Span::ms(50);

std::vector<PlacedInstance> in_order(const std::vector<int>& tps) {
  std::vector<PlacedInstance> placed;
  int gpu = 0;
  for (const int tp : tps) {
    PlacedInstance& instance = placed.emplace_back();
    for (int j = 0; j < tp; ++j) instance.gpus.push_back(gpu++);
  }
  return placed;
}

ReshardProblem one_node(const std::vector<int>& from, const std::vector<int>& to) {
  ReshardProblem problem;
  problem.present = in_order(from);
  for (const int tp : to) problem.next.push_back({tp, 0});
  problem.weight_bytes = kModel;
  return problem;
}

/// Table VI, all 36 cells. None contradicts the method, if the unit that moves is an eighth of the weights, as in
/// figure 6: from TP2+TP4, a new GPU gets its half from three holders, in whole eighths 2 tau (4/3 tau were they
/// divisible), but its quarter from two, 1 tau. The table is not symmetric: growing from few copies waits for their one
/// link to each newcomer, shrinking finds everything in place.
TEST(Reshard, ReproducesTableSix) {
  const std::vector<std::vector<int>> layouts = {{2}, {2, 2, 2, 2}, {4}, {2, 4}, {4, 4}, {8}};
  constexpr std::array<std::array<int, 6>, 6> kPrinted = {{{0, 4, 2, 2, 2, 1},
                                                           {0, 0, 0, 0, 0, 0},
                                                           {2, 2, 0, 2, 2, 1},
                                                           {0, 2, 0, 0, 1, 1},
                                                           {1, 1, 0, 1, 0, 0},
                                                           {1, 1, 1, 1, 1, 0}}};
  for (std::size_t from = 0; from < layouts.size(); ++from) {
    for (std::size_t to = 0; to < layouts.size(); ++to) {
      ReshardProblem problem = one_node(layouts[from], layouts[to]);
      problem.slices = 8;
      const auto plan = plan_reshard(problem);
      ASSERT_TRUE(plan.has_value());
      EXPECT_EQ(plan->transfer_time, kTau * kPrinted[from][to]) << from << " -> " << to;
    }
  }
}

TEST(Reshard, KeepsInstancesThatNeedNotMove) {
  const auto plan = plan_reshard(one_node({2, 4}, {4, 4}));
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->old[1].unchanged);
  EXPECT_FALSE(plan->old[0].unchanged);
  const auto same = plan_reshard(one_node({4, 4}, {4, 4}));
  EXPECT_TRUE(same->transfers.empty());
  EXPECT_EQ(same->total_time, Span());
  EXPECT_TRUE(same->old[0].unchanged && same->old[1].unchanged);
}

TEST(Reshard, MemoryDecidesWhoServesOn) {
  ReshardProblem problem = one_node({4}, {2});
  problem.gpu_bytes = 80'000'000'000;
  problem.kv_in_use = 5'000'000'000;
  problem.runtime_bytes = 2'000'000'000;
  problem.sync = Span::s(1);
  // Growing a shard from 30 to 60 GB beside two processes and the cache in use: 60 + 4 + 5 of 80 GB.
  auto plan = plan_reshard(problem);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(plan->old[0].serves_on);
  // Of 48 GB for KV cache, 16 are left on the GPUs that take on more.
  EXPECT_NEAR(plan->old[0].throughput_lost, 1.0 - 16.0 / 48.0, 1e-9);
  EXPECT_EQ(plan->total_time, Span::ms(1100));
  problem.kv_in_use = 20'000'000'000;
  plan = plan_reshard(problem);
  EXPECT_FALSE(plan->old[0].serves_on);
  EXPECT_EQ(plan->old[0].throughput_lost, 1.0);
  EXPECT_NE(plan->old[0].reason.find("84000000000 of 80000000000"), std::string::npos) << plan->old[0].reason;
}

TEST(Reshard, WhatNobodyHoldsComesFromTheHost) {
  ReshardProblem problem;
  problem.nodes = 2;
  problem.present = in_order({4});
  problem.next = {{4, 0}, {2, 1}};
  problem.weight_bytes = kModel;
  problem.host_bytes_per_s = 30e9;
  const auto plan = plan_reshard(problem);
  ASSERT_TRUE(plan.has_value());
  std::int64_t moved = 0;
  for (const Transfer& transfer : plan->transfers) {
    EXPECT_EQ(transfer.from, -1);
    moved += transfer.bytes;
  }
  EXPECT_EQ(moved, kModel);
  EXPECT_EQ(plan->transfer_time, Span::s(2));  // half the weights at 30 GB/s
}

TEST(Reshard, RefusesLayoutsThatCannotBe) {
  EXPECT_EQ(plan_reshard(one_node({4}, {8, 2})).error().message(), "node 0: 10 GPUs asked for, 8 there");
  ReshardProblem twice = one_node({4}, {2});
  twice.present.push_back({{3}});
  EXPECT_EQ(plan_reshard(twice).error().message(), "present 1: GPU 3 is used twice");
  twice.present.back().gpus = {8};
  EXPECT_EQ(plan_reshard(twice).error().message(), "present 1: GPU 8 does not exist");
}

std::vector<int> random_layout(int gpus) {
  std::vector<int> tps;
  while (true) {
    const int tp = *rc::gen::element(1, 2, 3, 4, 8);
    if (tp > gpus) return tps;
    tps.push_back(tp);
    gpus -= tp;
    if (*rc::gen::inRange(0, 5) == 0) return tps;
  }
}

RC_GTEST_PROP(ReshardProperty, EveryShardIsCompleteAndLinksDoNotOverlap, ()) {
  const ReshardProblem problem = one_node(random_layout(8), random_layout(8));
  const auto plan = plan_reshard(problem);
  RC_ASSERT(plan.has_value());
  const int unit = plan->slices_per_model;
  std::map<int, std::set<int>> holds;
  for (const PlacedInstance& instance : problem.present) {
    const int tp = static_cast<int>(instance.gpus.size());
    for (int j = 0; j < tp; ++j) {
      for (int s = j * unit / tp; s < (j + 1) * unit / tp; ++s)
        holds[instance.gpus[static_cast<std::size_t>(j)]].insert(s);
    }
  }
  std::map<int, std::set<int>> gets = holds;
  std::map<std::pair<int, int>, Span> busy;
  for (const Transfer& t : plan->transfers) {
    for (int s = t.first_slice; s < t.first_slice + t.slices; ++s) {
      RC_ASSERT(t.from == -1 || holds[t.from].contains(s));  // only what the sender had
      RC_ASSERT(gets[t.to].insert(s).second);                // nothing twice
    }
    RC_ASSERT(t.start >= busy[std::pair(t.from, t.to)]);
    RC_ASSERT(t.finish <= plan->transfer_time);
    busy[std::pair(t.from, t.to)] = t.finish;
  }
  std::set<int> used;
  for (std::size_t i = 0; i < problem.next.size(); ++i) {
    const int tp = problem.next[i].tp;
    RC_ASSERT(static_cast<int>(plan->placed[i].gpus.size()) == tp);
    for (int j = 0; j < tp; ++j) {
      const int gpu = plan->placed[i].gpus[static_cast<std::size_t>(j)];
      RC_ASSERT(used.insert(gpu).second);
      for (int s = j * unit / tp; s < (j + 1) * unit / tp; ++s) RC_ASSERT(gets[gpu].contains(s));
    }
  }
}

RC_GTEST_PROP(ReshardProperty, AssignmentMatchesEnumeration, ()) {
  const int lefts = *rc::gen::inRange(1, 5), rights = *rc::gen::inRange(lefts, 6);
  std::vector<MatchEdge> edges;
  for (int i = 0; i < lefts; ++i) {
    for (int j = 0; j < rights; ++j) edges.push_back({i, j, *rc::gen::inRange(0, 20)});
  }
  std::vector<int> order(static_cast<std::size_t>(rights));
  std::iota(order.begin(), order.end(), 0);
  std::int64_t best = 0;
  const auto worth = [&](const std::vector<int>& to) {
    std::int64_t sum = 0;
    for (int i = 0; i < lefts; ++i) {
      sum += edges[static_cast<std::size_t>(i * rights + to[static_cast<std::size_t>(i)])].weight;
    }
    return sum;
  };
  do best = std::max(best, worth(order));
  while (std::next_permutation(order.begin(), order.end()));
  const std::vector<int> match = max_weight_assignment(lefts, rights, edges);
  RC_ASSERT(static_cast<int>(match.size()) == lefts);
  RC_ASSERT(worth(match) == best);
}

}  // namespace
}  // namespace wattle::plan
