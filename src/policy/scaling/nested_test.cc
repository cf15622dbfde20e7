#include "policy/scaling/nested.h"

#include <gtest/gtest.h>

#include <map>

namespace wattle::policy {
namespace {

Instant at(double seconds) { return Instant() + Span::from_seconds(seconds); }

/// What each planner was asked, by its pool (-1: the fleet).
struct Log {
  std::map<std::int32_t, std::vector<Instant>> asked;
  std::map<std::int32_t, std::int32_t> gpus;  ///< of the mandate it saw last
  std::map<std::int32_t, double> rate;        ///< of class 0 it saw last
  std::int32_t budget = 8;                    ///< what the cluster passes to pool 0; pool 1 gets 4
};

class Cluster final : public ScalingPolicy {
 public:
  explicit Cluster(Log& log) : log_(log) {}
  Plan plan(const ScalingView& view) override {
    log_.asked[-1].push_back(view.now);
    log_.rate[-1] = view.rate_per_s.front();
    Plan plan;
    plan.reason = "cluster";
    plan.weights = {{ClassId(0), PoolId(0), 0.5}, {ClassId(0), PoolId(1), 0.5}};
    for (std::int32_t pool = 0; pool < 2; ++pool) {
      Mandate& mandate = plan.passed.emplace_back();
      mandate.pool = PoolId(pool);
      mandate.gpus = pool == 0 ? log_.budget : 4;
      mandate.most = MegaHertz(1410);
      mandate.until = view.now + Span::s(1800);
    }
    return plan;
  }

 private:
  Log& log_;
};

/// As many instances of two GPUs as it may have, and a clock range within its own.
class PoolPlanner final : public ScalingPolicy {
 public:
  PoolPlanner(Log& log, std::int32_t pool) : log_(log), pool_(pool) {}
  Plan plan(const ScalingView& view) override {
    log_.asked[pool_].push_back(view.now);
    log_.gpus[pool_] = view.given->gpus;
    for (const FleetMember& m : view.members) EXPECT_EQ(m.pool, PoolId(pool_)) << "others' instances";
    Plan plan;
    plan.reason = "pool";
    plan.instances = {{1, view.given->gpus / 2, {}, {}}};
    plan.clocks = {{PoolId(99), MegaHertz(1005), *view.given->most}};
    if (!view.members.empty()) {
      PlanStep& step = plan.steps.emplace_back();
      step.kind = StepKind::Drain;
      step.from = {view.members.front().id};
    }
    return plan;
  }

 private:
  Log& log_;
  std::int32_t pool_;
};

NestedPlanner nested(Log& log, Span pool_ahead = {}) {
  return NestedPlanner(
      {{"cluster", Span::s(1800), {}, [&log](std::optional<PoolId>) { return std::make_shared<Cluster>(log); }},
       {"pool", Span::s(300), pool_ahead,
        [&log](std::optional<PoolId> pool) { return std::make_shared<PoolPlanner>(log, pool->value()); }}},
      {1, 2});
}

ScalingView view(Instant now, std::span<const double> rates, std::span<const FleetMember> members = {}) {
  return {now, rates, {}, members, nullptr, {}, {}, {}};
}

TEST(NestedPlanner, EachPlansAtItsEpochUnderTheMandateFromAbove) {
  Log log;
  NestedPlanner planner = nested(log);
  Plan plan;
  for (double t = 5; t <= 1800; t += 5) {
    const double rate = t <= 900 ? 2.0 : 4.0;
    plan = planner.plan(view(at(t), std::array{rate}));
  }
  EXPECT_EQ(log.asked[-1].size(), 1U);
  EXPECT_EQ(log.asked[0].size(), 6U) << "at 5, 305, ... 1505 s";
  EXPECT_EQ(log.gpus[0], 8);
  ASSERT_EQ(plan.levels.size(), 3U);
  EXPECT_STREQ(plan.levels[0].name, "cluster");
  EXPECT_EQ(plan.levels[0].passed.size(), 2U);
  EXPECT_EQ(plan.levels[1].given->gpus, 8);
  EXPECT_EQ(plan.levels[1].gpus, 8);
  EXPECT_EQ(plan.levels[2].pool, PoolId(1));
  EXPECT_EQ(plan.instances.size(), 2U);
  EXPECT_EQ(plan.instances[1].pool, PoolId(1));
  EXPECT_EQ(plan.clocks[1].pool, PoolId(1)) << "its own pool, whatever it says";
  EXPECT_EQ(plan.weights.size(), 2U);
  // The top sees the mean of its whole epoch.
  planner.plan(view(at(1805), std::array{4.0}));
  EXPECT_NEAR(log.rate[-1], 3.0, 0.02);
}

TEST(NestedPlanner, AMandateThatChangesIsPlannedUnderAtOnce) {
  Log log;
  NestedPlanner planner = nested(log);
  planner.plan(view(at(5), std::array{1.0}));
  log.budget = 6;
  planner.plan(view(at(1805), std::array{1.0}));
  EXPECT_EQ(log.gpus[0], 6);
  EXPECT_EQ(log.asked[0].size(), 2U);
}

TEST(NestedPlanner, OneThatRestartsInMidEpochPlansAtOnceFromWhatItSees) {
  Log log;
  nested(log).plan(view(at(5), std::array{1.0}));
  NestedPlanner successor = nested(log);
  const Plan plan = successor.plan(view(at(100), std::array{1.0}));
  EXPECT_EQ(plan.instances.size(), 2U);
  EXPECT_EQ(log.asked[0].size(), 2U);
}

TEST(NestedPlanner, ClocksThatDisagreeShiftEpochsAndNothingElse) {
  for (const double skew : {-3600.0, -7.0, 7.0, 3600.0}) {
    Log log;
    NestedPlanner planner = nested(log, Span::from_seconds(skew));
    for (double t = 5; t <= 1800; t += 5) {
      const Plan plan = planner.plan(view(at(t), std::array{1.0}));
      ASSERT_EQ(plan.instances.size(), 2U);
      EXPECT_LE(plan.levels[1].gpus, plan.levels[1].given->gpus) << "it keeps to what it has got";
    }
    EXPECT_EQ(log.asked[0].size(), 6U) << skew;
  }
}

TEST(NestedPlanner, StepsAreRestatedUntilTheyHaveBegun) {
  Log log;
  NestedPlanner planner = nested(log);
  std::vector<FleetMember> members(2);
  members[0] = {InstanceId(0), 1, Phase::Serving, {}, PoolId(0)};
  members[1] = {InstanceId(1), 1, Phase::Serving, {}, PoolId(1)};
  EXPECT_EQ(planner.plan(view(at(5), std::array{1.0}, members)).steps.size(), 2U);
  EXPECT_EQ(planner.plan(view(at(10), std::array{1.0}, members)).steps.size(), 2U) << "nobody asked, still to do";
  members[0].phase = Phase::Draining;
  EXPECT_EQ(planner.plan(view(at(15), std::array{1.0}, members)).steps.size(), 1U);
}

}  // namespace
}  // namespace wattle::policy
