#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "control/plan_steps_rig_test.h"

namespace wattle::control::steps_rig {
namespace {

/// Random plans with steps over a fleet whose instances and nodes die, with new executors taking over at any time. The
/// driver checks GPUs, the order of calls, and that the executor never leaves a pool without an instance.
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
    // A new executor does not know the weights in force; the gateway keeps them until it gets new ones.
    driver.weights.clear();
  }
  RandomStream& random_;
};

// With a plan without steps, all nodes up and no further events, the fleet reaches the plan.
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
  RC_ASSERT(!fleet.executor->wants_more());
}

}  // namespace
}  // namespace wattle::control::steps_rig
