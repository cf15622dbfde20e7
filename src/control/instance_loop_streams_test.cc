// Decisions from token streams, without step reports.
#include <gtest/gtest.h>

#include <limits>

#include "control/instance_rig_test.h"
#include "control/next_step.h"

namespace wattle::control::instance_rig {
namespace {

TEST(InstanceLoop, WithoutStepReportsTheGatewaysStreamsDecide) {
  Rig rig;
  const auto at = [](std::int64_t ms) { return Instant() + Span::ms(ms); };
  rig.core.tick(at(0));
  EXPECT_TRUE(rig.core.work(0, work_of(3, 1), at(10)));
  const StepShape& shape = rig.core.view(0).step.shape;
  EXPECT_EQ(shape.decode_requests, 2);
  EXPECT_EQ(shape.decode_kv_tokens, 200 + 7);
  EXPECT_EQ(shape.prefill_tokens, 100);
  EXPECT_EQ(rig.core.source(0), TelemetrySource::Streams);
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 1005, 10'000'000}));
  EXPECT_TRUE(rig.core.work(0, work_of(0, 0), at(20)));
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 210, 20'000'000}));
  rig.core.tick(at(60'000));
  EXPECT_EQ(rig.core.counts(0).silent, 0) << "somebody says what it does";
  EXPECT_EQ(rig.core.counts(1).silent, 1) << "nobody speaks of the other";

  // If the gateway is gone, telemetry counts as lost.
  EXPECT_TRUE(rig.core.work(0, work_of(2, 0), at(61'000)));
  rig.core.tick(at(63'000));
  EXPECT_EQ(rig.core.counts(0).losses, 1);
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 1410, 63'000'000'000}));
}

/// High clock at first and for 200 ms, then low.
class Dwelling final : public policy::FrequencyPolicy {
 public:
  ClockDecision choose(const InstanceView& view, Instant now) override {
    ++asked;
    if (view.telemetry != Telemetry::Fresh) return {MegaHertz(210), "idle", Hold::forever()};
    if (since == Instant::never()) since = now;
    const Instant until = since + Span::ms(200);
    if (now < until) return {MegaHertz(1410), "dwell", {std::numeric_limits<std::int64_t>::max(), until}};
    return {MegaHertz(1005), "busy", Hold{}};
  }
  Instant since = Instant::never();
  int asked = 0;
};

TEST(InstanceLoop, ADecisionMadeWithoutStepReportsIsMadeAgainWhenItsTimeIsOver) {
  Port port;
  journal::Sink sink;
  InstanceLoop core({Span::s(2)}, port, sink);
  const auto policy = std::make_shared<Dwelling>();
  LoopInstance instance;
  instance.view.id = InstanceId(4);
  instance.view.clock_commanded = MegaHertz(1005);
  instance.policy = policy;
  core.add(std::move(instance));
  const auto at = [](std::int64_t ms) { return Instant() + Span::ms(ms); };
  core.work(0, work_of(2, 0), at(100));
  EXPECT_EQ(core.next_tick(), at(300));
  core.tick(at(299));
  EXPECT_EQ(policy->asked, 1);
  core.tick(at(300));
  EXPECT_EQ(port.commands.back(), (Port::Command{4, 1005, 300'000'000}));
  core.tick(at(301));
  EXPECT_EQ(policy->asked, 2) << "one that wants to be asked each time is asked when there is news";
  EXPECT_EQ(core.next_tick(), at(2'100)) << "when it will be lost";
}

TEST(InstanceLoop, StreamsTakeOverFromStepReportsThatAreLostAndGiveWayToThem) {
  Rig rig;
  const auto at = [](std::int64_t ms) { return Instant() + Span::ms(ms); };
  rig.report(4, 1, 3, 0);
  EXPECT_FALSE(rig.core.work(0, work_of(3, 0), at(100))) << "reports are heard";
  EXPECT_FALSE(rig.core.infer(0, {}, TelemetrySource::Gauges, at(100)));
  rig.core.tick(at(2'000));
  EXPECT_EQ(rig.core.counts(0).losses, 1);
  EXPECT_TRUE(rig.core.work(0, work_of(3, 0), at(2'100)));
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 1005, 2'100'000'000}));
  rig.report(4, 2, 0, 2'200);
  EXPECT_EQ(rig.core.source(0), TelemetrySource::StepStarts);
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 210, 2'200'000'000}));
  EXPECT_FALSE(rig.core.work(0, work_of(3, 0), at(2'300)));
}

TEST(InstanceLoop, GaugesCountRequestsAndNoTokensOfPrompts) {
  InstanceSpec spec;
  spec.kv_capacity_tokens = 1000;
  const LoadGauges gauges{4, 2, std::nullopt, 0.5};
  const StepReport seen = seen_by_gauges(gauges, spec, Instant());
  EXPECT_EQ(seen.shape.decode_requests, 4);
  EXPECT_EQ(seen.shape.decode_kv_tokens, 500);
  EXPECT_EQ(seen.waiting_requests, 2);
  spec.role = Role::Prefill;
  EXPECT_EQ(seen_by_gauges(gauges, spec, Instant()).waiting_requests, 6) << "what runs there is prompts";
  EXPECT_TRUE(seen_by_gauges({0, 0, 300, {}}, InstanceSpec{}, Instant()).shape.idle()) << "a cache that keeps prefixes";
}

}  // namespace
}  // namespace wattle::control::instance_rig
