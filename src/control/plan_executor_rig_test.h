#pragma once
// A fleet of three shapes whose policy and instances do what the test says.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "control/plan_executor.h"

namespace wattle::control::plan_rig {

using journal::Phase;

inline Instant at(double seconds) { return Instant() + Span::from_seconds(seconds); }

/// Wants what the test says.
class Scripted final : public policy::ScalingPolicy {
 public:
  explicit Scripted(std::vector<std::int32_t> first) : wanted(std::move(first)) {}
  Plan plan(const policy::ScalingView& view) override {
    rate = view.rate_per_s.front();
    Plan plan = Plan::of(wanted, "scripted");
    if (!targets.empty()) plan.instances = targets;
    plan.weights = weights;
    plan.steps = steps;
    return plan;
  }
  std::vector<PlanStep> steps;
  std::vector<PlanTarget> targets;  ///< instead of `wanted`
  std::vector<PoolWeight> weights;
  std::vector<std::int32_t> wanted;
  double rate = -1.0;
};

/// A driver whose instances do what the test says, and which aborts the test on any call out of order.
class Driver final : public FleetPort {
 public:
  enum class State : std::uint8_t { Starting, Open, Draining, Stopped, Dead };
  InstanceId spawn(const StartOrder& order, Instant) override {
    states.push_back(State::Starting);
    shapes.push_back(order.shape);
    loads.push_back(order.load);
    return InstanceId(static_cast<std::int32_t>(states.size()) - 1);
  }
  void open(InstanceId id, Instant now) override {
    State& state = states.at(index(id));
    ASSERT_TRUE(state == State::Starting || state == State::Draining);
    state = State::Open;
    if (scaler != nullptr && serves_at_once) scaler->serving(id, now);
  }
  void drain(InstanceId id, Instant now) override {
    State& state = states.at(index(id));
    ASSERT_EQ(state, State::Open);
    state = State::Draining;
    EXPECT_TRUE(last_may_go || count(State::Open) > 0) << "the last serving instance was drained";
    if (scaler != nullptr && empty) scaler->drained(id, now);
  }
  void stop(InstanceId id, Instant) override {
    State& state = states.at(index(id));
    // Starting ones too: one that answers is not open before serving() is called, where that comes later.
    ASSERT_TRUE(state == State::Starting || state == State::Draining || !serves_at_once);
    state = State::Stopped;
  }
  [[nodiscard]] std::int64_t count(State state) const { return std::ranges::count(states, state); }
  static std::size_t index(InstanceId id) { return static_cast<std::size_t>(id.value()); }

  std::vector<State> states;
  std::vector<std::size_t> shapes;
  std::vector<std::optional<Span>> loads;  ///< of the orders
  PlanExecutor* scaler = nullptr;
  bool serves_at_once = true;
  bool empty = false;  ///< what drains holds nothing
  bool last_may_go = false;
};

class Journal final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& record) override { decisions.push_back(record); }
  [[nodiscard]] std::vector<Phase> phases(InstanceId id) const {
    std::vector<Phase> out;
    for (const auto& d : decisions) {
      if (d.kind == journal::DecisionKind::Phase && d.instance == id) out.push_back(static_cast<Phase>(d.value));
    }
    return out;
  }
  std::vector<journal::DecisionRecord> decisions;
};

/// Three shapes, one instance of the last serving.
struct House {
  explicit House(Mode mode = Mode::Enforce, Span spawn_limit = Span::max(), std::vector<Node> nodes = {},
                 double surge = 0.0) {
    PlanExecutorOptions options;
    options.surge = surge;
    options.nodes = std::move(nodes);
    options.shapes = {{1, 1.0, Span::s(30)}, {2, 4.0, Span::s(30)}, {4, 8.0, Span::s(30)}};
    options.spawn_limit = spawn_limit;
    auto policy = std::make_unique<Scripted>(std::vector<std::int32_t>{0, 0, 1});
    scripted = policy.get();
    scaler = std::make_unique<PlanExecutor>(std::move(policy), mode, options, driver, journal);
    driver.scaler = scaler.get();
    driver.states.push_back(Driver::State::Open);
    driver.shapes.push_back(2);
    scaler->adopt(first, 2, Instant());
  }
  void want(std::vector<std::int32_t> wanted, double seconds) {
    scripted->wanted = std::move(wanted);
    scaler->tick(at(seconds));
  }
  [[nodiscard]] Driver::State state(std::int32_t id) const { return driver.states.at(static_cast<std::size_t>(id)); }

  Driver driver;
  Journal journal;
  Scripted* scripted = nullptr;
  std::unique_ptr<PlanExecutor> scaler;
  InstanceId first{0};
};

}  // namespace wattle::control::plan_rig
