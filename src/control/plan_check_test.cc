#include "control/plan_check.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>

#include "base/random.h"

namespace wattle::control {
namespace {

const FleetBounds kBounds{{2, 4, 8}, 16};

std::vector<FleetMember> serving(std::initializer_list<std::size_t> shapes) {
  std::vector<FleetMember> members;
  for (const std::size_t shape : shapes) {
    members.push_back({InstanceId(static_cast<std::int32_t>(members.size())), shape, Phase::Serving, {}});
  }
  return members;
}

PlanStep step(StepKind kind, std::vector<InstanceId> from, std::vector<std::size_t> to) {
  PlanStep s;
  s.kind = kind;
  s.from = std::move(from);
  s.to = std::move(to);
  return s;
}

std::string flaw(const Plan& plan, const std::vector<FleetMember>& members = serving({2, 2})) {
  const char* text = flaw_of(plan, members, kBounds);
  return text == nullptr ? "" : text;
}

TEST(PlanCheck, TargetsStayWithinBoundsAndMandate) {
  EXPECT_EQ(flaw(Plan::of({0, 0, 2}, "")), "");
  EXPECT_EQ(flaw(Plan::of({0, 0, 0}, "")), "no instance is wanted");
  EXPECT_EQ(flaw(Plan::of({0, 0, 3}, "")), "more GPUs than there are");
  EXPECT_EQ(flaw(Plan::of({0, 0, 0, 1}, "")), "a target of an unknown shape");
  EXPECT_EQ(flaw(Plan::of({-1, 0, 1}, "")), "a negative number of instances");
  Plan plan = Plan::of({0, 0, 2}, "");
  plan.given.emplace();
  plan.given->gpus = 8;
  EXPECT_EQ(flaw(plan), "more GPUs than were given");
  plan.given->gpus = 16;
  plan.passed.resize(2);
  plan.passed[0].gpus = plan.passed[1].gpus = 8;
  EXPECT_EQ(flaw(plan), "");
  plan.passed[1].gpus = 9;
  EXPECT_EQ(flaw(plan), "more GPUs are passed below than are planned");
}

TEST(PlanCheck, ClocksAndWeightsMakeSense) {
  Plan plan = Plan::of({0, 0, 2}, "");
  plan.given.emplace();
  plan.given->most = MegaHertz(1410);
  plan.clocks = {{PoolId(0), MegaHertz(1005), MegaHertz(1410)}};
  plan.weights = {{ClassId(0), PoolId(0), 0.25}, {ClassId(0), PoolId(1), 0.75}};
  EXPECT_EQ(flaw(plan), "");
  plan.weights[1].weight = 0.5;
  EXPECT_EQ(flaw(plan), "") << "the rest is shed";
  plan.weights[1].weight = 1.0;
  EXPECT_EQ(flaw(plan), "the weights of a class add up to more than 1");
  plan.weights[1].weight = std::nan("");
  EXPECT_EQ(flaw(plan), "a weight that is no share");
  plan.weights.clear();
  plan.clocks[0].most = MegaHertz(1980);
  EXPECT_EQ(flaw(plan), "clocks above those given");
  plan.clocks[0].most = MegaHertz(210);
  EXPECT_EQ(flaw(plan), "a clock range that is empty");
}

TEST(PlanCheck, RequestsGoToPoolsWithInstancesAndStepsLeaveThemOne) {
  Plan plan;
  plan.instances = {{2, 1, {}, PoolId(0)}};
  plan.weights = {{ClassId(0), PoolId(1), 1.0}};
  EXPECT_EQ(flaw(plan), "requests to a pool of no instance");
  plan.instances.push_back({1, 1, {}, PoolId(1)});
  EXPECT_EQ(flaw(plan), "");
  auto members = serving({2, 1});
  members[1].pool = PoolId(1);
  plan.steps = {step(StepKind::Drain, {InstanceId(1)}, {})};
  EXPECT_EQ(flaw(plan, members), "nothing would serve in a pool");
  plan.steps = {step(StepKind::Reshard, {InstanceId(1)}, {0, 0})};
  EXPECT_EQ(flaw(plan, members), "nothing would serve in a pool");
  plan.steps.front().serves_on = true;
  EXPECT_EQ(flaw(plan, members), "");
  members[0].node = NodeId(1);
  plan.steps = {step(StepKind::Reshard, {InstanceId(0), InstanceId(1)}, {2})};
  plan.steps.front().serves_on = true;
  EXPECT_EQ(flaw(plan, members), "a re-shard across nodes");
}

TEST(PlanCheck, EachLevelKeepsToWhatItWasGiven) {
  Plan plan = Plan::of({0, 0, 2}, "");
  PlanLevel pool{"pool", PoolId(0), {}, 8, Mandate{}, {}, ""};
  pool.given->gpus = 8;
  pool.given->most = MegaHertz(1410);
  plan.levels = {pool};
  EXPECT_EQ(flaw(plan), "");
  plan.levels.front().gpus = 9;
  EXPECT_EQ(flaw(plan), "more GPUs than were given");
  plan.levels.front().gpus = 8;
  plan.levels.front().passed.resize(2);
  plan.levels.front().passed[0].gpus = plan.levels.front().passed[1].gpus = 5;
  EXPECT_EQ(flaw(plan), "more GPUs are passed below than were given");
  plan.levels.front().passed.resize(1);
  plan.clocks = {{PoolId(0), MegaHertz(210), MegaHertz(1500)}};
  EXPECT_EQ(flaw(plan), "clocks above those given");
  plan.clocks.clear();
  EXPECT_EQ(flaw(plan), "");
  plan.levels.front().passed[0].most = MegaHertz(1980);
  EXPECT_EQ(flaw(plan), "clocks above those given");
}

TEST(PlanCheck, NodesHoldWhatIsPlannedOnThem) {
  Plan plan;
  plan.instances = {{1, 2, NodeId(0), {}}};
  FleetBounds bounds = kBounds;
  bounds.nodes = {{NodeId(0), 8, 8, true}};
  EXPECT_EQ(flaw_of(plan, {}, bounds), nullptr);
  plan.instances.front().count = 3;
  EXPECT_STREQ(flaw_of(plan, {}, bounds), "more GPUs of a node than it has");
  plan.instances.front().node = NodeId(1);
  EXPECT_STREQ(flaw_of(plan, {}, bounds), "a target on a node that is not there");
}

TEST(PlanCheck, StepsTouchWhatServesOnceAndEnd) {
  Plan plan = Plan::of({0, 4, 0}, "");
  plan.steps = {step(StepKind::Reshard, {InstanceId(0)}, {1, 1}), step(StepKind::Reshard, {InstanceId(1)}, {1, 1})};
  EXPECT_EQ(flaw(plan), "") << "one after the other";
  EXPECT_EQ(flaw(plan, serving({2})), "nothing would serve");
  plan.steps = {step(StepKind::Reshard, {InstanceId(0), InstanceId(1)}, {1, 1, 1, 1})};
  EXPECT_EQ(flaw(plan), "nothing would serve") << "both at once";
  plan.steps = {step(StepKind::Reshard, {InstanceId(0)}, {1, 1, 0})};
  EXPECT_EQ(flaw(plan), "a re-shard to more GPUs than it is from and its node has free");
  plan.steps = {step(StepKind::Drain, {InstanceId(0)}, {}), step(StepKind::Reshard, {InstanceId(0)}, {1, 1})};
  EXPECT_EQ(flaw(plan), "an instance in two steps");
  plan.steps = {step(StepKind::Drain, {InstanceId(7)}, {})};
  EXPECT_EQ(flaw(plan), "a step from an instance that is not there");
  plan.steps = {step(StepKind::Start, {}, {1})};
  plan.steps.front().cost.time = Span::max();
  EXPECT_EQ(flaw(plan), "a step that never ends");
  plan.steps = {step(StepKind::Move, {InstanceId(0)}, {})};
  EXPECT_EQ(flaw(plan), "a move is of one instance to a node");
  plan.steps.front().node = NodeId(1);
  EXPECT_EQ(flaw(plan, serving({2})), "") << "the new one serves first";
}

/// Four instances in two pools, in random phases, and a plan of random steps for them.
struct RandomPlan {
  explicit RandomPlan(std::uint64_t seed) : random(seed, "plans"), members(serving({0, 1, 2, 2})) {
    for (auto& member : members) {
      constexpr Phase kPhases[] = {Phase::Serving, Phase::Serving, Phase::Serving, Phase::Spawning, Phase::Draining};
      member.phase = kPhases[random.below(5)];
      member.pool = PoolId(static_cast<std::int32_t>(random.below(2)));
    }
    plan = Plan::of({1, 1, 1}, "");
    if (random.below(2) == 0) plan.weights = {{ClassId(0), PoolId(0), 0.5}, {ClassId(0), PoolId(1), 0.5}};
    for (std::uint64_t i = random.below(5); i > 0; --i) plan.steps.push_back(random_step());
  }
  PlanStep random_step() {
    PlanStep s = step(static_cast<StepKind>(random.below(5)), {}, {});
    const bool leaves = s.kind == StepKind::Drain || s.kind == StepKind::Reshard || s.kind == StepKind::Move;
    for (std::uint64_t n = leaves ? 1 + random.below(2) : 0; n > 0; --n) {
      s.from.push_back(InstanceId(static_cast<std::int32_t>(random.below(5))));
    }
    if (s.kind == StepKind::Start || s.kind == StepKind::Reshard) s.to.push_back(random.below(4));
    if (s.kind == StepKind::Move) s.node = NodeId(0);
    if (random.below(4) == 0) s.pool = PoolId(static_cast<std::int32_t>(random.below(2)));
    s.serves_on = random.below(2) == 0;
    return s;
  }
  RandomStream random;
  std::vector<FleetMember> members;
  Plan plan;
};

// If a plan that passed the check is executed step by step, at least one instance serves at any time, in the fleet and
// in each pool that gets requests and had a serving instance before. No instance is both started and drained, or
// drained twice. Dead members and members that are still starting do not count.
RC_GTEST_PROP(PlanCheckProperty, WhatPassesNeverGoesDark, (std::uint64_t seed)) {
  const RandomPlan made(seed);
  const Plan& plan = made.plan;
  const bool sound = flaw_of(plan, made.members, kBounds) == nullptr;
  RC_CLASSIFY(sound && !plan.steps.empty());
  RC_CLASSIFY(sound && !plan.steps.empty() && !plan.weights.empty());
  if (!sound) return;
  std::map<InstanceId, bool> serves;
  std::map<PoolId, std::int64_t> up;
  for (const auto& member : made.members) {
    up[member.pool] += (serves[member.id] = member.phase == Phase::Serving) ? 1 : 0;
  }
  for (const PlanStep& s : plan.steps) {
    const auto before = up;
    const PoolId of =
        s.from.empty() ? PoolId{} : made.members.at(static_cast<std::size_t>(s.from.front().value())).pool;
    const auto come = [&] {
      up[s.pool.value_or(of)] += s.kind == StepKind::Move ? 1 : static_cast<std::int64_t>(s.to.size());
    };
    const bool first = s.kind == StepKind::Move || (s.kind == StepKind::Reshard && s.serves_on);
    if (first) come();
    for (const InstanceId id : s.from) {
      RC_ASSERT(serves.at(id));
      serves[id] = false;
      --up[made.members[static_cast<std::size_t>(id.value())].pool];
    }
    RC_ASSERT(s.from.empty() || up[PoolId(0)] + up[PoolId(1)] > 0);
    for (const PoolWeight& w : plan.weights) {
      const auto had = before.find(w.pool);
      const bool had_none = had == before.end() || had->second == 0;  // RC_ASSERT evaluates both sides of ||
      RC_ASSERT(had_none || up[w.pool] > 0);
    }
    if (!first) come();
  }
}

}  // namespace
}  // namespace wattle::control
