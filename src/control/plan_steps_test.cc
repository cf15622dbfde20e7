#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/random.h"
#include "control/plan_executor.h"

namespace wattle::control {
namespace {

Instant at(double seconds) { return Instant() + Span::from_seconds(seconds); }

class Scripted final : public policy::ScalingPolicy {
 public:
  Plan plan(const policy::ScalingView& view) override {
    seen.assign(view.members.begin(), view.members.end());
    rates.assign(view.rate_per_s.begin(), view.rate_per_s.end());
    return next;
  }
  Plan next;
  std::vector<FleetMember> seen;
  std::vector<double> rates;
};

/// Instances on GPUs that do what the test says; any call out of order fails the test.
class Driver final : public FleetPort {
 public:
  enum class State : std::uint8_t { Coming, Open, Draining, Gone };
  struct Instance {
    StartOrder order;
    State state = State::Coming;
    double squeezed = 0.0;
  };
  InstanceId spawn(const StartOrder& order, Instant) override {
    const InstanceId id(next++);
    for (const auto& [other, o] : fleet) {
      if (o.state == State::Gone || o.order.node != order.node) continue;
      for (const std::int32_t gpu : order.gpus) {
        const bool taken = std::ranges::find(o.order.gpus, gpu) != o.order.gpus.end();
        EXPECT_TRUE(!taken || std::ranges::find(order.from, other) != order.from.end()) << "a GPU given twice";
      }
    }
    fleet[id].order = order;
    return id;
  }
  void open(InstanceId id, Instant now) override {
    EXPECT_TRUE(is(id, State::Coming) || is(id, State::Draining));
    fleet.at(id).state = State::Open;
    executor->serving(id, now);
  }
  void drain(InstanceId id, Instant now) override {
    EXPECT_TRUE(is(id, State::Open));
    fleet.at(id).state = State::Draining;
    EXPECT_GT(count(State::Open), 0) << "the last serving instance was drained";
    for (const PoolWeight& w : weights) {
      const bool theirs = fleet.at(id).order.pool == w.pool && w.weight > 0.0;
      EXPECT_TRUE(!theirs || serves(w.pool)) << "a pool's last serving instance was drained";
    }
    if (empty) executor->drained(id, now);
  }
  void stop(InstanceId id, Instant) override {
    EXPECT_TRUE(is(id, State::Coming) || is(id, State::Draining));
    fleet.at(id).state = State::Gone;
  }
  void squeeze(InstanceId id, double lost, Instant) override { fleet.at(id).squeezed = lost; }
  void reroute(std::span<const PoolWeight> w, Instant) override {
    weights.assign(w.begin(), w.end());
    for (const PoolWeight& weight : weights) EXPECT_TRUE(weight.weight <= 0.0 || serves(weight.pool)) << "sent nowhere";
  }
  void bound(std::span<const ClockRange> ranges, Instant) override { clocks.assign(ranges.begin(), ranges.end()); }

  [[nodiscard]] bool is(InstanceId id, State state) const { return fleet.at(id).state == state; }
  [[nodiscard]] std::int64_t count(State state) const {
    return std::ranges::count_if(fleet, [&](const auto& entry) { return entry.second.state == state; });
  }
  [[nodiscard]] bool serves(PoolId pool) const {
    return std::ranges::any_of(
        fleet, [&](const auto& e) { return e.second.state == State::Open && e.second.order.pool == pool; });
  }
  std::map<InstanceId, Instance> fleet;
  std::vector<PoolWeight> weights;
  std::vector<ClockRange> clocks;
  PlanExecutor* executor = nullptr;
  std::int32_t next = 0;
  bool empty = false;
};

class Journal final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& d) override {
    if (d.kind == journal::DecisionKind::Step) steps.emplace_back(d.reason);
    if (d.kind == journal::DecisionKind::Scaling) planned = d.reason;
  }
  void plan(const journal::PlanRecord&) override { ++plans; }
  std::vector<std::string> steps;
  std::string planned;
  int plans = 0;
};

using State = Driver::State;
constexpr InstanceId kFirst{0};

/// Shapes of 1, 2 and 4 GPUs; nodes of 4 GPUs each.
struct Fleet {
  explicit Fleet(int nodes, std::vector<std::size_t> shapes, std::int64_t gpu_bytes = 0, std::int32_t at_once = 1000) {
    PlanExecutorOptions options;
    options.shapes = {{1, 1.0, Span::s(30)}, {2, 4.0, Span::s(30)}, {4, 8.0, Span::s(30)}};
    options.at_once = at_once;
    for (int n = 0; n < nodes; ++n) options.nodes.push_back({NodeId(n), "", "", 4, {}});
    options.reshard.weight_bytes = 40;
    options.reshard.gpu_bytes = gpu_bytes;
    options.reshard.link_bytes_per_s = 10.0;
    options.reshard.sync = Span::s(1);
    make = [this, options] { return std::make_unique<PlanExecutor>(script, Mode::Enforce, options, driver, journal); };
    executor = make();
    driver.executor = executor.get();
    for (const std::size_t shape : shapes) {
      const InstanceId id(driver.next++);
      EXPECT_TRUE(executor->adopt(id, shape, Instant()));
      driver.fleet[id] = {
          {.shape = shape, .node = executor->members().back().node, .gpus = executor->members().back().gpus},
          State::Open};
    }
  }
  void plan(Plan next, double seconds) {
    script->next = std::move(next);
    executor->tick(at(seconds));
    EXPECT_EQ(journal.planned, script->next.reason);
  }
  void up(std::int32_t id, double seconds) { executor->up(InstanceId(id), at(seconds)); }
  void die(std::int32_t id, double seconds) {
    driver.fleet.at(InstanceId(id)).state = State::Gone;
    executor->died(InstanceId(id), at(seconds));
  }
  void drained(std::int32_t id, double seconds) { executor->drained(InstanceId(id), at(seconds)); }
  [[nodiscard]] State state(std::int32_t id) const { return driver.fleet.at(InstanceId(id)).state; }

  std::shared_ptr<Scripted> script = std::make_shared<Scripted>();
  Driver driver;
  Journal journal;
  std::function<std::unique_ptr<PlanExecutor>()> make;
  std::unique_ptr<PlanExecutor> executor;
};

PlanStep step(StepKind kind, std::vector<std::int32_t> from, std::vector<std::size_t> to) {
  PlanStep made;
  made.kind = kind;
  for (const std::int32_t id : from) made.from.push_back(InstanceId(id));
  made.to = std::move(to);
  return made;
}

/// One of 4 GPUs becomes two of 2.
Plan split(bool serves_on = true) {
  Plan plan = Plan::of({0, 2, 0}, "split");
  plan.steps = {step(StepKind::Reshard, {0}, {1, 1})};
  plan.steps.front().serves_on = serves_on;
  return plan;
}

TEST(PlanSteps, AReshardServesOnWhereMemoryHoldsBothAndTakesItsTransferTime) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  ASSERT_EQ(fleet.driver.fleet.size(), 3U);
  EXPECT_EQ(fleet.state(0), State::Open);
  const StartOrder& order = fleet.driver.fleet.at(InstanceId(1)).order;
  EXPECT_EQ(order.from, std::vector{kFirst});
  EXPECT_EQ(order.gpus.size(), 2U);
  // Each of the 2-GPU shards is half of 40 bytes, a quarter is there; 10 bytes over links of 10 bytes/s, and the start.
  ASSERT_TRUE(order.load);
  EXPECT_GT(*order.load, Span::s(1));
  EXPECT_LE(*order.load, Span::s(2));
  fleet.up(1, 15);
  EXPECT_EQ(fleet.state(0), State::Open) << "until both serve";
  fleet.up(2, 15);
  EXPECT_EQ(fleet.state(0), State::Draining);
  fleet.drained(0, 20);
  EXPECT_EQ(fleet.state(0), State::Gone);
  EXPECT_EQ(fleet.journal.steps, (std::vector<std::string>{"begun", "done"}));
  EXPECT_EQ(fleet.executor->nodes().front().free_gpus, 0);
}

TEST(PlanSteps, AReshardThatMemoryDoesNotHoldTwiceLeavesFirstIfSomethingElseServes) {
  Fleet alone(1, {2}, 15);
  alone.plan(split(), 10);
  EXPECT_EQ(alone.state(0), State::Open);
  EXPECT_EQ(alone.journal.steps.front(), "memory holds no second engine, and nothing else serves");

  Fleet fleet(2, {2, 2}, 15);
  Plan plan = split(false);
  plan.instances.push_back({2, 1, {}, {}});
  fleet.plan(plan, 10);
  EXPECT_EQ(fleet.state(0), State::Draining);
  EXPECT_EQ(fleet.driver.fleet.size(), 2U) << "nothing comes before it is gone";
  fleet.drained(0, 20);
  ASSERT_EQ(fleet.driver.fleet.size(), 4U);
  fleet.up(2, 25);
  fleet.up(3, 25);
  EXPECT_EQ(fleet.journal.steps, (std::vector<std::string>{"begun", "done"}));
}

TEST(PlanSteps, ANewerPlanDropsWhatHasNotBegunAndRollsBackWhatItDoesNotWant) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  fleet.plan(Plan::of({0, 0, 1}, "back"), 12);
  EXPECT_EQ(fleet.state(0), State::Open);
  EXPECT_EQ(fleet.state(1), State::Gone);
  EXPECT_EQ(fleet.state(2), State::Gone);
  EXPECT_EQ(fleet.executor->running_steps(), 0U);
  EXPECT_EQ(fleet.driver.count(State::Open), 1);

  Fleet kept(1, {2});
  kept.plan(split(), 10);
  kept.plan(Plan::of({0, 2, 0}, "the same without its steps"), 12);
  EXPECT_EQ(kept.executor->running_steps(), 1U) << "what began is finished";
  EXPECT_EQ(kept.driver.fleet.size(), 3U);
}

TEST(PlanSteps, AReshardTakesItsNodesFreeGpusToo) {
  Fleet fleet(2, {0, 1});
  const auto& members = fleet.executor->members();
  ASSERT_EQ(members[0].node, members[1].node);
  Plan plan = Plan::of({0, 2, 0}, "the smaller one grows on the fourth GPU");
  plan.steps = {step(StepKind::Reshard, {0}, {1})};
  fleet.plan(plan, 10);
  ASSERT_EQ(fleet.driver.fleet.size(), 3U);
  const StartOrder& order = fleet.driver.fleet.at(InstanceId(2)).order;
  EXPECT_EQ(order.node, members[0].node);
  EXPECT_EQ(std::set(order.gpus.begin(), order.gpus.end()), (std::set<std::int32_t>{0, 3}));
  fleet.up(2, 15);
  fleet.drained(0, 20);
  EXPECT_EQ(fleet.journal.steps, (std::vector<std::string>{"begun", "done"}));
  EXPECT_EQ(fleet.executor->nodes()[0].free_gpus, 0);
  EXPECT_EQ(fleet.executor->nodes()[1].free_gpus, 4);
}

TEST(PlanSteps, WhatIsTooMuchLeavesTheEmptierNode) {
  Fleet fleet(2, {1, 2});
  Plan plan = Plan::of({0, 2, 0}, "two of two GPUs");
  plan.steps = {step(StepKind::Reshard, {1}, {1, 1})};
  fleet.plan(plan, 10);
  fleet.up(2, 15);
  fleet.up(3, 15);
  fleet.drained(1, 20);
  EXPECT_EQ(fleet.state(0), State::Draining) << "the oldest, but then its node is empty";
  EXPECT_EQ(fleet.state(2), State::Open);
  EXPECT_EQ(fleet.state(3), State::Open);
}

TEST(PlanSteps, OldInstancesServeOnWhereTheNewOnesDie) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  fleet.die(1, 11);
  fleet.die(2, 11);
  EXPECT_EQ(fleet.state(0), State::Open);
  EXPECT_EQ(fleet.driver.fleet.at(kFirst).squeezed, 0.0);
  EXPECT_EQ(fleet.journal.steps.back(), "what it started died");
}

TEST(PlanSteps, ANodeThatDiesWhileItIsReshardedLosesWhatItHeldAndNothingElse) {
  Fleet fleet(2, {2, 2}, 15);
  Plan plan = split(false);
  plan.instances.push_back({2, 1, {}, {}});
  fleet.plan(plan, 10);
  fleet.executor->node_is(NodeId(0), false, at(11));
  fleet.die(0, 11);
  EXPECT_EQ(fleet.journal.steps.back(), "its node died");
  EXPECT_EQ(fleet.driver.fleet.size(), 2U) << "no room until it is back";
  EXPECT_EQ(fleet.state(1), State::Open);
  fleet.executor->node_is(NodeId(0), true, at(100));
  EXPECT_EQ(fleet.driver.fleet.size(), 4U);
}

TEST(PlanSteps, AMoveServesThereBeforeItDrainsHere) {
  Fleet fleet(2, {2});
  Plan plan = Plan::of({0, 0, 1}, "move");
  plan.steps = {step(StepKind::Move, {0}, {})};
  plan.steps.front().node = NodeId(1);
  fleet.plan(plan, 10);
  ASSERT_EQ(fleet.driver.fleet.size(), 2U);
  EXPECT_EQ(fleet.driver.fleet.at(InstanceId(1)).order.node, NodeId(1));
  EXPECT_EQ(fleet.state(0), State::Open);
  fleet.plan(plan, 20);
  EXPECT_EQ(fleet.driver.fleet.size(), 2U) << "saying it again begins nothing again";
  EXPECT_TRUE(fleet.script->seen.front().changing);
  fleet.up(1, 40);
  EXPECT_EQ(fleet.state(0), State::Draining);
  fleet.drained(0, 50);
  EXPECT_EQ(fleet.journal.steps.back(), "done");
}

TEST(PlanSteps, AMoveToAnotherPoolDoesNotEmptyItsOwn) {
  Fleet fleet(3, {2});
  Plan plan;
  plan.reason = "two pools";
  plan.instances = {{2, 1, {}, PoolId(0)}, {2, 1, {}, PoolId(1)}};
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(1), 1.0}};
  fleet.plan(plan, 10);
  fleet.up(1, 40);
  ASSERT_EQ(fleet.driver.weights.size(), 2U);
  plan.reason = "nothing would serve in a pool";
  plan.steps = {step(StepKind::Move, {1}, {})};
  plan.steps.front().node = NodeId(2);
  plan.steps.front().pool = PoolId(0);
  fleet.plan(plan, 50);
  // Sound by its own weights, which are not in force while pool 2 does not serve.
  plan.reason = "sound";
  plan.instances = {{2, 2, {}, PoolId(0)}, {2, 1, {}, PoolId(2)}};
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(2), 1.0}};
  fleet.plan(plan, 60);
  ASSERT_EQ(fleet.driver.fleet.size(), 3U);
  fleet.up(2, 90);
  EXPECT_EQ(fleet.state(1), State::Open) << "requests still go to its pool";
}

TEST(PlanSteps, StepsAreStaggered) {
  Fleet fleet(3, {2, 2, 2}, 0, 1);
  Plan plan = Plan::of({0, 4, 1}, "two of three");
  plan.steps = {step(StepKind::Reshard, {0}, {1, 1}), step(StepKind::Reshard, {1}, {1, 1})};
  fleet.plan(plan, 10);
  EXPECT_EQ(fleet.executor->running_steps(), 1U);
  EXPECT_EQ(fleet.executor->pending_steps(), 1U);
  fleet.up(3, 15);
  fleet.up(4, 15);
  EXPECT_EQ(fleet.driver.fleet.size(), 5U) << "the first has not ended";
  fleet.drained(0, 20);
  EXPECT_EQ(fleet.driver.fleet.size(), 7U);
}

TEST(PlanSteps, WeightsHoldOnceTheirPoolsServeAndTheirPoolsAreNeverEmptied) {
  Fleet fleet(2, {2});
  Plan plan;
  plan.reason = "two pools";
  plan.instances = {{2, 1, {}, PoolId(0)}, {2, 1, {}, PoolId(1)}};
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(1), 1.0}};
  plan.clocks = {{PoolId(1), MegaHertz(1005), MegaHertz(1410)}};
  fleet.plan(plan, 10);
  EXPECT_TRUE(fleet.driver.weights.empty());
  EXPECT_EQ(fleet.driver.clocks.size(), 1U) << "at once";
  fleet.up(1, 40);
  ASSERT_EQ(fleet.driver.weights.size(), 2U);
  EXPECT_EQ(fleet.driver.fleet.at(InstanceId(1)).order.pool, PoolId(1));
  EXPECT_EQ(fleet.journal.plans, 1);
  fleet.plan(plan, 50);
  EXPECT_EQ(fleet.journal.plans, 1) << "the same again is not written again";
  // Pool 1 goes: first the requests, then the instance.
  plan.instances.pop_back();
  plan.weights = {{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(0), 1.0}};
  fleet.plan(plan, 60);
  EXPECT_EQ(fleet.state(1), State::Draining);
}

TEST(PlanSteps, WhatHoldsTheGpusThatAreMissingDrainsFirst) {
  Fleet fleet(1, {1, 1});
  fleet.plan(Plan::of({2, 1, 0}, "smaller ones"), 10);
  EXPECT_EQ(fleet.state(1), State::Draining) << "there is no room beside it";
  EXPECT_EQ(fleet.driver.fleet.size(), 2U);
  fleet.drained(1, 20);
  EXPECT_EQ(fleet.driver.fleet.size(), 4U);
}

TEST(PlanSteps, RatesAreByClass) {
  Fleet fleet(1, {2});
  fleet.executor->arrived(ClassId(2), 40);
  fleet.executor->arrived(ClassId(0), 10);
  fleet.plan(Plan::of({0, 0, 1}, "as it is"), 10);
  EXPECT_EQ(fleet.script->rates, (std::vector{1.0, 0.0, 4.0}));
  EXPECT_EQ(fleet.journal.plans, 0) << "counts alone are in the decision";
}

TEST(PlanSteps, AClockThatGoesBackIsNotFollowed) {
  Fleet fleet(1, {2});
  fleet.plan(Plan::of({0, 0, 1}, "a"), 100);
  fleet.executor->arrived({}, 5);
  fleet.plan(Plan::of({0, 0, 1}, "b"), 40);
  EXPECT_EQ(fleet.script->rates.front(), 0.0) << "in no time";
  EXPECT_GT(fleet.executor->next_tick(), at(100));
}

// The executor dies in mid-epoch; the next one is given what is observed, and no step is known to it.
TEST(PlanSteps, ASuccessorResumesAReshardFromWhatItSees) {
  Fleet fleet(1, {2});
  fleet.plan(split(), 10);
  const auto members = fleet.executor->members();
  fleet.executor = fleet.make();
  fleet.driver.executor = fleet.executor.get();
  for (FleetMember member : members) {
    member.changing = false;
    EXPECT_TRUE(fleet.executor->adopt(member, at(12)));
  }
  fleet.plan(Plan::of({0, 2, 0}, "the same counts"), 20);
  EXPECT_EQ(fleet.executor->running_steps(), 1U);
  EXPECT_EQ(fleet.driver.fleet.size(), 3U) << "nothing is started twice";
  fleet.up(1, 25);
  fleet.up(2, 25);
  EXPECT_EQ(fleet.state(0), State::Draining);
  fleet.drained(0, 30);
  EXPECT_EQ(fleet.driver.count(State::Open), 2);
}

/// Random plans with steps over a fleet whose instances and nodes die, with successors taking over at any time. The
/// driver checks GPUs, order of calls and that nothing goes dark by the executor's doing.
class RandomFleet : public Fleet {
 public:
  explicit RandomFleet(RandomStream& random)
      : Fleet(3, {2, 1, 1}, random.below(2) == 0 ? 0 : 10 + static_cast<std::int64_t>(random.below(30)),
              1 + static_cast<std::int32_t>(random.below(3))),
        random_(random) {}

  void something_happens() {
    now += 5;
    switch (random_.below(6)) {
      case 0:
        script->next = random_plan();
        return executor->tick(at(now));
      case 1:
        return random_.below(4) == 0 ? succeed() : void();
      case 2: {
        const InstanceId id(static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(driver.next))));
        return random_.below(3) == 0 && !driver.is(id, State::Gone) ? die(id.value(), now) : void();
      }
      case 3: {
        const NodeId node(static_cast<std::int32_t>(random_.below(3)));
        return down.contains(node) || random_.below(3) == 0 ? set_node(node, down.contains(node)) : void();
      }
      default:
        return progress(false);
    }
  }
  void progress(bool all) {
    for (const auto& [id, instance] : std::map(driver.fleet)) {
      if (!all && random_.below(3) != 0) continue;
      if (driver.is(id, State::Coming)) executor->up(id, at(now));
      if (driver.is(id, State::Draining)) executor->drained(id, at(now));
    }
  }
  void set_node(NodeId node, bool up) {
    executor->node_is(node, up, at(now));
    if (up) {
      down.erase(node);
      return;
    }
    down.insert(node);
    for (const auto& [id, instance] : std::map(driver.fleet)) {
      if (instance.order.node == node && !driver.is(id, State::Gone)) die(id.value(), now);
    }
  }
  std::set<NodeId> down;
  double now = 0.0;

 private:
  Plan random_plan() {
    Plan plan;
    plan.reason = "random";
    for (std::int32_t pool = 0; pool < 2; ++pool) {
      plan.instances.push_back({random_.below(2) == 0 ? 1U : 0U, 1, {}, PoolId(pool)});
      if (random_.below(2) == 0) plan.instances.push_back({random_.below(3), 1, {}, PoolId(pool)});
    }
    if (random_.below(2) == 0) {
      plan.weights = {{ClassId(0), PoolId(0), 0.5}, {ClassId(0), PoolId(1), 0.5}};
    }
    for (const FleetMember& m : executor->members()) {
      if (m.phase != Phase::Serving || random_.below(3) != 0) continue;
      PlanStep s = step(StepKind::Drain, {m.id.value()}, {});
      const auto kind = random_.below(3);
      if (kind == 1 && m.shape > 0) {
        s.kind = StepKind::Reshard;
        s.to = {m.shape - 1, m.shape - 1};
        s.serves_on = random_.below(2) == 0;
      } else if (kind == 2) {
        s.kind = StepKind::Move;
        s.node = NodeId(static_cast<std::int32_t>(random_.below(3)));
      }
      plan.steps.push_back(std::move(s));
    }
    if (random_.below(3) == 0) plan.steps.push_back(step(StepKind::Reroute, {}, {}));
    return plan;
  }
  void succeed() {
    const auto members = executor->members();
    executor = make();
    driver.executor = executor.get();
    for (FleetMember member : members) {
      member.changing = false;
      EXPECT_TRUE(executor->adopt(std::move(member), at(now)));
    }
    for (const NodeId node : down) executor->node_is(node, false, at(now));
    // A successor does not know the shares in force; the gateway keeps them until it is given others.
    driver.weights.clear();
  }
  RandomStream& random_;
};

// Left alone under a plan without steps, with every node up, the fleet comes to the plan.
RC_GTEST_PROP(PlanStepsProperty, ComesToThePlanWhateverHappens, (std::uint64_t seed)) {
  RandomStream random(seed, "steps");
  RandomFleet fleet(random);
  for (int i = 0; i < 60; ++i) {
    fleet.something_happens();
    const auto there = std::ssize(fleet.driver.fleet) - fleet.driver.count(State::Gone);
    RC_ASSERT(there == std::ssize(fleet.executor->members()));
  }
  for (const NodeId node : std::set(fleet.down)) fleet.set_node(node, true);
  Plan plan = Plan::of({}, "last");
  plan.instances = {{1, 1, {}, PoolId(0)}, {0, 2, {}, PoolId(1)}};
  fleet.script->next = plan;
  for (int i = 0; i < 80; ++i) {
    fleet.now += 10;
    fleet.executor->tick(at(fleet.now));
    fleet.progress(true);
  }
  std::map<std::pair<std::size_t, PoolId>, int> open;
  for (const auto& [id, instance] : fleet.driver.fleet) {
    if (instance.state == State::Open) ++open[{instance.order.shape, instance.order.pool}];
    RC_ASSERT(instance.state == State::Open || instance.state == State::Gone);
  }
  RC_ASSERT((open == std::map<std::pair<std::size_t, PoolId>, int>{{{1, PoolId(0)}, 1}, {{0, PoolId(1)}, 2}}));
  RC_ASSERT(fleet.executor->running_steps() + fleet.executor->pending_steps() == 0U);
}

}  // namespace
}  // namespace wattle::control
