#include "policy/frequency/primal_dual_clock.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace wattle::policy {
namespace {

/// Steps of a part that no clock shortens and one that does: at 1410 MHz 20 ms and 0.2 ms for each of a step's tokens.
struct Times final : LatencyModel {
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const double tokens = shape.decode_requests + static_cast<double>(shape.prefill_tokens);
    return Span::from_seconds((0.010 + (0.010 + 0.0002 * tokens) * 1410.0 / clock.value()) * scale);
  }
  double scale = 1.0;
};
/// 100 W and as the cube of the clock 200 more.
struct Watts_ final : PowerModel {
  [[nodiscard]] Milliwatts step_power(const StepShape&, MegaHertz clock) const override {
    const double x = clock.value() / 1410.0;
    return Milliwatts(static_cast<std::int64_t>(1e3 * (100.0 + 200.0 * x * x * x)));
  }
};

class PrimalDualClocks : public testing::Test {
 protected:
  PrimalDualClocks() {
    spec.gpu.clock_min = MegaHertz{210};
    spec.gpu.clock_max = MegaHertz{1410};
    for (std::int32_t mhz = 210; mhz <= 1410; mhz += 15) spec.clocks.emplace_back(mhz);
    spec.beliefs.latency = &times;
    spec.beliefs.power = &watts;
    view.spec = &spec;
    view.telemetry = Telemetry::Fresh;
  }
  /// The clock after 20 s of these steps.
  MegaHertz after(PrimalDualClock& policy, const StepShape& shape, std::int32_t waiting = 0) {
    MegaHertz clock;
    for (const Instant end = now + Span::s(20); now < end; now += Span::ms(40)) {
      view.step.shape = shape;
      view.step.waiting_requests = waiting;
      ++view.step.sequence;
      view.step.start = now;
      clock = policy.choose(view, now).clock;
    }
    return clock;
  }
  MegaHertz settled(const PrimalDualOptions& options, const StepShape& shape, std::int32_t waiting = 0) {
    PrimalDualClock policy(options, spec);
    return after(policy, shape, waiting);
  }

  Times times;
  Watts_ watts;
  InstanceSpec spec;
  InstanceView view;
  Instant now;
};

constexpr StepShape decodes(std::int32_t requests) { return {requests, requests * 500, 0, 0, 0}; }

TEST_F(PrimalDualClocks, more_requests_ask_for_a_higher_clock_and_a_higher_price_for_a_lower_one) {
  PrimalDualOptions options;
  const MegaHertz one = settled(options, decodes(1));
  const MegaHertz some = settled(options, decodes(8));
  EXPECT_LT(one, some);
  EXPECT_LE(some, settled(options, decodes(64)));
  options.price *= 4;
  EXPECT_LT(settled(options, decodes(8)), some);
}

TEST_F(PrimalDualClocks, limits_are_kept_whatever_a_watt_costs) {
  PrimalDualOptions options;
  options.price = 10.0;
  EXPECT_EQ(settled(options, decodes(8)), MegaHertz{300}) << "52 ms there, for a limit of 150";
  options.tbt = Span::ms(30);
  const MegaHertz strict = settled(options, decodes(8));
  EXPECT_LE(times.step_time(decodes(8), strict), Span::us(30'300));
  EXPECT_GT(times.step_time(decodes(8), strict), Span::ms(25)) << "and not much more than that";
  options.margin = 0.2;
  EXPECT_GT(settled(options, decodes(8)), strict);
  options = {};
  options.price = 10.0;
  options.mean_gap_ms = {30};
  spec.pool = PoolId(0);
  EXPECT_NEAR(settled(options, decodes(8)).value(), strict.value(), 15);
}

TEST_F(PrimalDualClocks, requests_that_wait_raise_the_clock) {
  PrimalDualOptions options;
  options.price = 1.0;
  EXPECT_LT(settled(options, decodes(8)), settled(options, decodes(8), 40));
}

TEST_F(PrimalDualClocks, a_prompt_that_has_waited_asks_for_more_than_one_that_has_just_come) {
  PrimalDualOptions options;
  options.price = 10.0;
  const auto after_wait = [&](Span waited, Role role) {
    spec.role = role;
    PrimalDualClock policy(options, spec);
    MegaHertz clock;
    for (const Instant end = now + Span::s(20); now < end; now += Span::ms(40)) {
      view.step.shape = {0, 0, 1, 500, 125'000};
      view.step.oldest_scheduled_arrival = now + Span::ms(-waited.ns() / 1'000'000);
      ++view.step.sequence;
      view.step.start = now;
      clock = policy.choose(view, now).clock;
    }
    return clock;
  };
  const MegaHertz fresh = after_wait(Span(), Role::Colocated);
  EXPECT_LT(fresh, MegaHertz{400}) << "527 ms at 300 MHz, for a limit of 600";
  EXPECT_GT(after_wait(Span::ms(400), Role::Colocated), fresh) << "200 ms are left";
  EXPECT_GT(after_wait(Span(), Role::Prefill), fresh) << "a quarter of the limit";
}

TEST_F(PrimalDualClocks, what_it_is_held_to_counts_for_halves_and_where_asked) {
  PrimalDualOptions options;
  options.price = 10.0;
  spec.slo.itl = Span::ms(30);
  EXPECT_EQ(settled(options, decodes(8)), MegaHertz{300});
  spec.role = Role::Decode;
  EXPECT_GT(settled(options, decodes(8)), MegaHertz{600});
  PrimalDualClock policy(options, spec);
  policy.held_to(view, {});
  EXPECT_EQ(after(policy, decodes(8)), MegaHertz{300});
}

TEST_F(PrimalDualClocks, idle_it_goes_to_the_lowest_clock_after_a_period_and_work_brings_it_back_at_once) {
  PrimalDualClock policy({}, spec);
  const MegaHertz busy = after(policy, decodes(64));
  EXPECT_GT(busy, MegaHertz{600});
  view.step.shape = {};
  view.telemetry = Telemetry::Idle;
  const ClockDecision soon = policy.choose(view, now);
  EXPECT_EQ(soon.clock, busy);
  EXPECT_LE(soon.hold.until, now + Span::s(1)) << "it wants to be asked again";
  now += Span::s(1);
  EXPECT_EQ(policy.choose(view, now).clock, MegaHertz{300});
  view.telemetry = Telemetry::Fresh;
  view.step.shape = decodes(64);
  now += Span::ms(10);
  EXPECT_GT(policy.choose(view, now).clock, MegaHertz{500});
}

TEST_F(PrimalDualClocks, nothing_to_go_by_is_the_highest_clock) {
  PrimalDualClock policy({}, spec);
  EXPECT_LT(after(policy, decodes(1)), MegaHertz{1410});
  view.telemetry = Telemetry::Lost;
  EXPECT_EQ(policy.choose(view, now).clock, MegaHertz{1410});
  view.telemetry = Telemetry::Fresh;
  times.scale = 1e6;
  now += Span::s(2);
  EXPECT_EQ(policy.choose(view, now).clock, MegaHertz{1410});
  EXPECT_EQ(policy.disbelieved(), 1);
  spec.beliefs.power = nullptr;
  EXPECT_EQ(settled({}, decodes(1)), MegaHertz{1410});
}

TEST_F(PrimalDualClocks, commands_once_a_period) {
  PrimalDualClock policy({}, spec);
  int changes = 0;
  MegaHertz before;
  for (const Instant end = now + Span::s(5); now < end; now += Span::ms(20)) {
    view.step.shape = decodes(1 + static_cast<std::int32_t>(now.ns() / Span::ms(20).ns()) % 60);
    view.step.start = now;
    ++view.step.sequence;
    changes += std::exchange(before, policy.choose(view, now).clock) == view.clock_commanded
                   ? 0
                   : before != view.clock_commanded;
    view.clock_commanded = before;
  }
  EXPECT_LE(changes, 6);
}

TEST_F(PrimalDualClocks, no_clock_beyond_what_is_believed) {
  spec.beliefs.clocks = {MegaHertz{700}, MegaHertz{1200}};
  const auto known = clocks_from(MegaHertz{300}, spec);
  EXPECT_EQ(known.front(), MegaHertz{705});
  EXPECT_EQ(known.back(), MegaHertz{1200});
  EXPECT_LE(known.size(), 16U);
  PrimalDualOptions options;
  options.price = 10.0;
  EXPECT_EQ(settled(options, decodes(1)), MegaHertz{705});
  options.price = 1e-6;
  EXPECT_EQ(settled(options, decodes(64)), MegaHertz{1200});
}

RC_GTEST_FIXTURE_PROP(PrimalDualClocks, every_clock_can_be_locked_and_is_not_under_the_floor, ()) {
  PrimalDualOptions options;
  options.floor = MegaHertz(*rc::gen::inRange(0, 1400));
  options.price = *rc::gen::inRange(1, 1000) * 1e-3;
  options.tbt = Span::ms(*rc::gen::inRange(0, 200));
  PrimalDualClock policy(options, spec);
  for (int i = 0; i < 50; ++i) {
    view.step.shape = decodes(*rc::gen::inRange(0, 100));
    view.step.shape.prefill_requests = *rc::gen::inRange(0, 3);
    view.step.shape.prefill_tokens = 100 * view.step.shape.prefill_requests;
    view.step.waiting_requests = *rc::gen::inRange(0, 20);
    view.step.start = now;
    ++view.step.sequence;
    const MegaHertz clock = policy.choose(view, now).clock;
    RC_ASSERT(std::ranges::count(spec.clocks, clock) == 1);
    RC_ASSERT(clock >= options.floor || clock == spec.clocks.back());
    now += Span::ms(*rc::gen::inRange(1, 800));
  }
}

}  // namespace
}  // namespace wattle::policy
