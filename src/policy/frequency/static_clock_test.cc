#include "policy/frequency/static_clock.h"

#include <gtest/gtest.h>

#include "policy/frequency/idle_parking.h"

namespace wattle::policy {
namespace {

constexpr MegaHertz kBusy{1410};
constexpr MegaHertz kParked{210};

InstanceView in_state(Telemetry telemetry, std::int32_t requests, std::int32_t waiting) {
  InstanceView view;
  view.telemetry = telemetry;
  view.step.shape.decode_requests = requests;
  view.step.waiting_requests = waiting;
  return view;
}

TEST(StaticClock, KeepsItsClockUnlessItIsToPark) {
  StaticClock plain(kBusy);
  StaticClock parking(kBusy, kParked);
  const auto clock = [](FrequencyPolicy& policy, const InstanceView& view) {
    return policy.choose(view, Instant{}).clock;
  };
  EXPECT_EQ(clock(plain, in_state(Telemetry::Idle, 0, 0)), kBusy);
  EXPECT_EQ(clock(parking, in_state(Telemetry::Idle, 0, 0)), kParked);
  EXPECT_EQ(clock(parking, in_state(Telemetry::Fresh, 1, 0)), kBusy);
  EXPECT_EQ(clock(parking, in_state(Telemetry::Fresh, 0, 1)), kBusy) << "a queue is work";
  EXPECT_EQ(clock(parking, in_state(Telemetry::Lost, 0, 0)), kBusy) << "silence is not idleness";
  EXPECT_TRUE(plain.choose(in_state(Telemetry::Fresh, 1, 0), Instant{}).hold.covers(1'000'000'000, Instant{1}));
}

TEST(IdleParking, ParksOnlyWhatIsKnownToBeIdle) {
  IdleParking policy(kBusy, kParked);
  const auto clock = [&](const InstanceView& view) { return policy.choose(view, Instant{}).clock; };
  EXPECT_EQ(clock(in_state(Telemetry::Idle, 0, 0)), kParked);
  EXPECT_EQ(clock(in_state(Telemetry::Fresh, 1, 0)), kBusy);
  EXPECT_EQ(clock(in_state(Telemetry::Lost, 0, 0)), kBusy);
}

}  // namespace
}  // namespace wattle::policy
