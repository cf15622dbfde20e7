// A long run in which instances are replaced all the time.
#include <gtest/gtest.h>

#include "engine/hardware_profile.h"
#include "sim/random_case_test.h"
#include "sim/simulation_impl.h"

namespace wattle::sim {
namespace {

/// Two instances of one shape and then two of the other.
class Alternating final : public policy::ScalingPolicy {
 public:
  Plan plan(const policy::ScalingView&) override {
    turn_ = !turn_;
    return Plan::of(turn_ ? std::vector<std::int32_t>{0, 2} : std::vector<std::int32_t>{2, 0}, "in turn");
  }

 private:
  bool turn_ = false;
};

class Facts final : public journal::Sink {
 public:
  void joined(const journal::Instance&) override { ++joined_; }
  int joined_ = 0;
};

void turn_over(TelemetrySource reports) {
  auto model = engine::StepModel::make(GpuSpec{}, LlmSpec{}, 1, engine::HardwareProfile{}, {});
  ASSERT_TRUE(model.has_value());
  constexpr int kSeconds = 6'000;
  std::vector<workload::TraceRow> rows;
  for (int second = 0; second < kSeconds; ++second) rows.push_back({Instant() + Span::s(second), 200, 5});
  workload::ListSource source(rows);
  Facts facts;
  SimulationSetup setup;
  setup.source = &source;
  setup.sink = &facts;
  setup.telemetry = reports;
  auto& scaling = setup.scaling;
  for (int s = 0; s < 2; ++s) {
    const auto make = [&model](InstanceId id) {
      InstanceSetup instance;
      instance.id = id;
      instance.spec = std::make_shared<const InstanceSpec>();
      instance.model = &*model;
      instance.initial_clock = MegaHertz(1410);
      instance.frequency.policy = std::make_unique<ThresholdPolicy>(4, 3'000, false);
      return instance;
    };
    scaling.shapes.push_back({1, 1.0, make});
  }
  setup.instances.push_back(scaling.shapes[0].make(InstanceId(0)));
  scaling.shape_of = {0};
  scaling.policy.policy = std::make_shared<Alternating>();
  scaling.period = Span::s(4);
  scaling.load_time = Span::s(1);
  for (std::int32_t f = 0; f < 500; ++f) {  // some die
    setup.faults.push_back({Instant() + Span::s(10 * f + 7), InstanceId(4 * f), Span::s(1), {}});
  }
  Simulation simulation(std::move(setup));
  const SimulationResult result = simulation.run();
  EXPECT_GT(facts.joined_, 2'500) << "instances came and went";
  EXPECT_LE(simulation.instances_kept(), 6U) << "what is kept is of those that are there";
  EXPECT_LT(result.summary.by_instance.size(), 1'000U);
  EXPECT_EQ(result.summary.requests.finished + result.summary.requests.failed, kSeconds);
  double joules = 0.0;
  for (const auto& row : result.summary.by_instance) joules += row.energy.value();
  EXPECT_NEAR(joules, result.summary.energy.total.value(), 1e-6 * joules) << "and nothing is lost";
}

TEST(FleetTurnover, WhatIsKeptIsBoundedByTheInstancesThatAreThere) { turn_over(TelemetrySource::StepStarts); }
TEST(FleetTurnover, WhatIsKeptIsBoundedWithReportsOfEndedSteps) { turn_over(TelemetrySource::StepEnds); }
TEST(FleetTurnover, WhatIsKeptIsBoundedWithStreamsAlone) { turn_over(TelemetrySource::Streams); }
TEST(FleetTurnover, WhatIsKeptIsBoundedWithGaugesAlone) { turn_over(TelemetrySource::Gauges); }

}  // namespace
}  // namespace wattle::sim
