#pragma once
// A fleet of instances on nodes of four GPUs whose planner says what a test says, for the plan executor's stated steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/plan_executor.h"

namespace wattle::control::steps_rig {

inline Instant at(double seconds) { return Instant() + Span::from_seconds(seconds); }

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
    EXPECT_TRUE(goes_dark || count(State::Open) > 0) << "the last serving instance was drained";
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
  bool goes_dark = false;  ///< the last one may
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
inline constexpr InstanceId kFirst{0};

/// Shapes of 1, 2 and 4 GPUs; nodes of 4 GPUs each.
struct Fleet {
  explicit Fleet(int nodes, std::vector<std::size_t> shapes, std::int64_t gpu_bytes = 0, std::int32_t at_once = 1000,
                 const std::vector<policy::Shape>& more = {}) {
    PlanExecutorOptions options;
    options.shapes = {{1, 1.0, Span::s(30)}, {2, 4.0, Span::s(30)}, {4, 8.0, Span::s(30)}};
    options.shapes.insert(options.shapes.end(), more.begin(), more.end());
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

inline PlanStep step(StepKind kind, std::vector<std::int32_t> from, std::vector<std::size_t> to) {
  PlanStep made;
  made.kind = kind;
  for (const std::int32_t id : from) made.from.push_back(InstanceId(id));
  made.to = std::move(to);
  return made;
}

/// One of 4 GPUs becomes two of 2.
inline Plan split(bool serves_on = true) {
  Plan plan = Plan::of({0, 2, 0}, "split");
  plan.steps = {step(StepKind::Reshard, {0}, {1, 1})};
  plan.steps.front().serves_on = serves_on;
  return plan;
}

}  // namespace wattle::control::steps_rig
