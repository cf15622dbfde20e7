#include "policy/frequency/miad.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <optional>
#include <vector>

namespace wattle::policy {
namespace {

InstanceSpec a100() {
  InstanceSpec spec;
  for (std::int32_t mhz = 210; mhz <= 1410; mhz += 15) spec.clocks.emplace_back(mhz);
  return spec;
}

/// An instance that decodes a batch of 8 at a token gap of the test's choosing.
class Engine {
 public:
  explicit Engine(const InstanceSpec& spec) { view_.spec = &spec; }
  /// A step of length `gap`, then the decision at the start of the next.
  MegaHertz step(Miad& policy, Span gap, StepShape shape = {8, 4000, 0, 0, 0}, Instant oldest = Instant::never(),
                 std::int32_t waiting = 0) {
    view_.telemetry = Telemetry::Fresh;
    view_.step.waiting_requests = waiting;
    view_.step.shape = shape;
    view_.step.oldest_scheduled_arrival = oldest;
    ++view_.step.sequence;
    view_.step.start = now_;
    clock_ = policy.choose(view_, now_).clock;
    now_ += gap;
    return clock_;
  }
  MegaHertz idle(Miad& policy, Span time) {
    view_.telemetry = Telemetry::Idle;
    view_.step.shape = {};
    view_.step.waiting_requests = 0;
    now_ += time;
    return clock_ = policy.choose(view_, now_).clock;
  }
  MegaHertz lost(Miad& policy, Span time) {
    view_.telemetry = Telemetry::Lost;
    now_ += time;
    return clock_ = policy.choose(view_, now_).clock;
  }
  /// Its last step has ended and nothing is left to do.
  MegaHertz idles(Miad& policy) {
    ++view_.step.sequence;
    view_.step.start = now_;
    return idle(policy, Span());
  }
  void pass(Span time) { now_ += time; }
  /// Steps of `gap` for `time`; the clock at its end.
  MegaHertz run(Miad& policy, Span gap, Span time) {
    for (const Instant end = now_ + time; now_ < end;) step(policy, gap);
    return clock_;
  }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const InstanceView& view() const { return view_; }

 private:
  InstanceView view_;
  Instant now_;
  MegaHertz clock_{0};
};

TEST(Miad, a_mean_gap_above_its_pools_is_congestion) {
  InstanceSpec spec = a100();
  spec.pool = PoolId(1);
  MiadOptions options;
  options.mean_gap_ms = {10, 80};
  for (const auto& [gap_ms, rises] : {std::pair{70, false}, {90, true}}) {
    Miad policy(options);
    Engine engine(spec);
    engine.run(policy, Span::ms(20), Span::s(6));
    const MegaHertz before = engine.run(policy, Span::ms(20), Span::s(1));
    EXPECT_EQ(engine.run(policy, Span::ms(gap_ms), Span::s(3)) > before, rises) << gap_ms;
  }
  spec.pool = PoolId(2);  // nothing is said of it
  Miad policy(options);
  Engine engine(spec);
  const MegaHertz before = engine.run(policy, Span::ms(100), Span::s(2));
  EXPECT_LT(engine.run(policy, Span::ms(100), Span::s(3)), before);
}

/// The clock after 2 s of a decode half's steps of `gap`; it is at 885 MHz before.
MegaHertz after_gaps(const InstanceSpec& spec, const MiadOptions& options, Span gap,
                     const std::optional<Slo>& held_to = std::nullopt) {
  Miad policy(options);
  Engine engine(spec);
  if (held_to) policy.held_to(engine.view(), *held_to);
  EXPECT_EQ(engine.run(policy, Span::ms(10), Span::ms(5010)), MegaHertz{885});
  return engine.run(policy, gap, Span::s(2));
}

TEST(Miad, a_decode_half_keeps_to_the_objectives_of_its_gaps) {
  constexpr MegaHertz kBefore{885};
  InstanceSpec spec = a100();
  spec.slo.tbt = Span::ms(30);
  EXPECT_LT(after_gaps(spec, {}, Span::ms(40)), kBefore) << "colocated: by the limits alone";
  MiadOptions asked;
  asked.objectives = true;
  EXPECT_GT(after_gaps(spec, asked, Span::ms(40)), kBefore) << "unless asked to";
  spec.role = Role::Decode;
  EXPECT_GT(after_gaps(spec, {}, Span::ms(40)), kBefore);
  EXPECT_LT(after_gaps(spec, {}, Span::ms(29)), kBefore);
  MiadOptions reserve;
  reserve.margin = 0.1;
  EXPECT_GT(after_gaps(spec, reserve, Span::ms(29)), kBefore);
  MiadOptions strict;
  strict.mean_gap_ms = {25};
  EXPECT_GT(after_gaps(spec, strict, Span::ms(29)), kBefore) << "the stricter of limit and objective";
  Slo loose;
  loose.tbt = Span::ms(60);
  EXPECT_LT(after_gaps(spec, {}, Span::ms(40), loose), kBefore) << "what it is held to has changed";
  EXPECT_GT(after_gaps(spec, {}, Span::ms(70), loose), kBefore);
  spec.slo = {};
  EXPECT_LT(after_gaps(spec, {}, Span::ms(40)), kBefore) << "no objective: as anywhere";
}

TEST(Miad, one_gap_beyond_its_objective_is_congestion_at_a_decode_half) {
  InstanceSpec spec = a100();
  spec.slo.itl = Span::ms(60);
  for (const auto& [role, clock] : {std::pair{Role::Decode, 1410}, {Role::Colocated, 1305}}) {
    spec.role = role;
    Miad policy({});
    Engine engine(spec);
    engine.run(policy, Span::ms(20), Span::ms(600));
    engine.step(policy, Span::ms(70));
    EXPECT_EQ(engine.run(policy, Span::ms(20), Span::ms(500)), MegaHertz{clock});
  }
}

/// The clock after 3 s with a prompt every 300 ms, each in its own step of `step`. It begins at 1095 MHz.
MegaHertz after_prompts(const InstanceSpec& spec, Span step) {
  Miad policy({});
  Engine engine(spec);
  engine.step(policy, Span::ms(20));
  engine.idles(policy);
  while (engine.idle(policy, Span::s(1)) > MegaHertz{1095}) {
  }
  for (int i = 0; i < 10; ++i) {
    engine.step(policy, step, {0, 0, 1, 1000, 500'000}, engine.now());
    engine.idles(policy);
    for (const Instant next = engine.now() + Span::ms(300) - step; engine.now() < next;) {
      engine.idle(policy, Span::ms(10));  // drivers call it when a period ends
    }
  }
  return engine.step(policy, step, {0, 0, 1, 1000, 500'000}, engine.now());
}

TEST(Miad, a_prefill_halfs_steps_leave_time_for_prompts_that_come_meanwhile) {
  InstanceSpec spec = a100();
  spec.slo.ttft = Span::ms(400);
  EXPECT_LT(after_prompts(spec, Span::ms(110)), MegaHertz{1095}) << "colocated: in time";
  spec.role = Role::Prefill;
  EXPECT_GT(after_prompts(spec, Span::ms(110)), MegaHertz{1095}) << "more than a quarter of 400 ms";
  EXPECT_LT(after_prompts(spec, Span::ms(90)), MegaHertz{1095});
  spec.slo = {};
  EXPECT_LT(after_prompts(spec, Span::ms(110)), MegaHertz{1095}) << "less than a quarter of 600 ms";
  EXPECT_GT(after_prompts(spec, Span::ms(160)), MegaHertz{1095});
}

TEST(Miad, a_prompt_that_comes_to_an_idle_instance_is_heard_of_whatever_its_number) {
  InstanceSpec spec = a100();
  spec.role = Role::Prefill;
  for (const bool as_it_ended : {false, true}) {
    Miad policy({});
    InstanceView view;
    view.spec = &spec;
    view.telemetry = Telemetry::Fresh;
    view.step.start = Instant() + Span::ms(100);
    (void)policy.choose(view, view.step.start);  // idle
    view.step.sequence += as_it_ended ? 0 : 1;
    view.step.start = view.step.oldest_scheduled_arrival = Instant() + Span::ms(200);
    view.step.shape = {0, 0, 1, 1000, 500'000};
    const MegaHertz before = policy.choose(view, view.step.start).clock;
    ++view.step.sequence;
    view.step.start = Instant() + Span::ms(900);
    view.step.shape = {};
    (void)policy.choose(view, view.step.start);
    const ClockDecision after = policy.choose(view, Instant() + Span::ms(1100));
    EXPECT_STREQ(after.reason, "congested: clock raised") << "700 ms for a limit of 600";
    EXPECT_EQ(after.clock, before) << "the highest";
  }
}

TEST(Miad, a_first_token_that_the_hand_over_makes_late_is_congestion_at_both_halves) {
  InstanceSpec spec = a100();
  spec.slo.ttft = Span::ms(500);
  const auto clock_after = [&](Role role, Span age, Span wait) {
    spec.role = role;
    Miad policy({});
    Engine engine(spec);
    engine.run(policy, Span::ms(20), Span::ms(600));
    policy.handed_over(age, wait);
    return engine.run(policy, Span::ms(20), Span::ms(500));
  };
  for (const Role role : {Role::Prefill, Role::Decode}) {
    EXPECT_EQ(clock_after(role, Span::ms(300), Span::ms(150)), MegaHertz{1305});
    EXPECT_EQ(clock_after(role, Span::ms(300), Span::ms(250)), MegaHertz{1410});
    EXPECT_EQ(clock_after(role, Span::ms(510), Span::ms(150)), MegaHertz{1305}) << "it was late before";
  }
}

TEST(Miad, falls_by_a_step_a_second_and_doubles_when_requests_suffer) {
  const InstanceSpec spec = a100();
  Miad policy({});
  Engine engine(spec);
  EXPECT_EQ(engine.step(policy, Span::ms(50)), MegaHertz{1410}) << "starts at the highest";
  EXPECT_EQ(engine.run(policy, Span::ms(50), Span::ms(900)), MegaHertz{1410}) << "not before the period ends";
  EXPECT_EQ(engine.run(policy, Span::ms(50), Span::ms(150)), MegaHertz{1305}) << "1310 is no clock of this GPU";
  EXPECT_EQ(engine.run(policy, Span::ms(50), Span::s(4)), MegaHertz{885});
  EXPECT_EQ(engine.run(policy, Span::ms(200), Span::ms(1200)), MegaHertz{1410}) << "min(2 f, f_max)";
}

TEST(Miad, a_rise_is_a_factor_not_the_maximum) {
  const InstanceSpec spec = a100();
  Miad policy({});
  Engine engine(spec);
  engine.run(policy, Span::ms(50), Span::s(20));
  EXPECT_EQ(engine.step(policy, Span::ms(50)), MegaHertz{300}) << "the floor";
  EXPECT_EQ(engine.run(policy, Span::ms(200), Span::ms(1400)), MegaHertz{600});
}

TEST(Miad, one_long_gap_is_congestion_unless_a_share_of_them_is_tolerated) {
  const InstanceSpec spec = a100();
  MiadOptions tolerant;
  tolerant.quantile = 0.9;
  Miad most(tolerant);
  Engine of_it(spec);
  of_it.run(most, Span::ms(40), Span::ms(600));
  of_it.step(most, Span::ms(160));
  EXPECT_EQ(of_it.run(most, Span::ms(40), Span::ms(400)), MegaHertz{1305});
  for (const auto& [gap_ms, clock] : {std::pair{149, 1305}, {151, 1410}}) {
    Miad policy({});
    Engine engine(spec);
    engine.run(policy, Span::ms(40), Span::ms(600));
    engine.step(policy, Span::ms(gap_ms));
    EXPECT_EQ(engine.run(policy, Span::ms(40), Span::ms(400)), MegaHertz{clock}) << gap_ms;
  }
}

TEST(Miad, a_late_first_token_is_congestion_by_the_length_of_its_prompt) {
  const InstanceSpec spec = a100();
  const auto clock_after = [&](std::int64_t prompt_tokens, bool waits_in_engine) {
    Miad policy({});
    Engine engine(spec);
    engine.run(policy, Span::ms(50), Span::ms(1700));
    const StepShape prefill{0, 0, 1, prompt_tokens, 0};
    for (int i = 0; i < 3; ++i) {
      engine.step(policy, Span::ms(100), prefill, engine.now() + Span::ms(-300), waits_in_engine ? 1 : 0);
    }
    engine.step(policy, Span::ms(100), prefill, engine.now() + Span::ms(-300));
    EXPECT_GT(engine.now(), Instant() + Span::s(2));
    engine.step(policy, Span::ms(50));
    return engine.run(policy, Span::ms(50), Span::ms(700));
  };
  EXPECT_EQ(clock_after(100, true), MegaHertz{1410}) << "350 ms for a limit of 300";
  EXPECT_LT(clock_after(1000, true), MegaHertz{1305}) << "for a limit of 600";
  EXPECT_LT(clock_after(100, false), MegaHertz{1305}) << "a gateway held it: the engine had it for 200 ms";
}

TEST(Miad, idle_it_asks_to_be_asked_each_period_until_the_floor) {
  const InstanceSpec spec = a100();
  Miad policy({});
  InstanceView view;
  view.spec = &spec;
  view.telemetry = Telemetry::Idle;
  Instant now;
  std::vector<std::int32_t> clocks;
  for (Instant next = now; next != Instant::never();) {
    ASSERT_LT(clocks.size(), 20U) << "asked for ever";
    now = next;
    const ClockDecision decision = policy.choose(view, now);
    clocks.push_back(decision.clock.value());
    next = decision.hold.until;
    EXPECT_TRUE(next == Instant::never() || next == now + Span::s(1));
  }
  EXPECT_EQ(clocks, (std::vector<std::int32_t>{1410, 1305, 1200, 1095, 990, 885, 780, 675, 570, 465, 360, 300, 300}));
}

TEST(Miad, no_period_spans_idle_time) {
  const InstanceSpec spec = a100();
  Miad policy({});
  Engine engine(spec);
  engine.step(policy, Span::ms(50));
  EXPECT_EQ(engine.idle(policy, Span::ms(50)), MegaHertz{1410}) << "no period has ended";
  engine.pass(Span::ms(3250));  // a driver that was late
  EXPECT_EQ(engine.run(policy, Span::ms(50), Span::ms(600)), MegaHertz{1410}) << "the fourth period goes on";
  EXPECT_EQ(engine.run(policy, Span::ms(50), Span::ms(200)), MegaHertz{1305});
}

TEST(Miad, without_work_the_clock_goes_on_falling_and_lost_telemetry_raises_it) {
  const InstanceSpec spec = a100();
  Miad policy({});
  Engine engine(spec);
  engine.step(policy, Span::ms(50));
  for (int i = 0; i < 20; ++i) engine.idle(policy, Span::s(1));
  EXPECT_EQ(engine.idle(policy, Span::s(1)), MegaHertz{300});
  EXPECT_EQ(engine.lost(policy, Span::ms(1)), MegaHertz{600});
}

TEST(Miad, a_period_without_a_latency_goes_on) {
  const InstanceSpec spec = a100();
  Miad policy({});
  Engine engine(spec);
  engine.step(policy, Span::ms(1500));
  EXPECT_EQ(engine.step(policy, Span::ms(100)), MegaHertz{1410}) << "one step took more than a period";
  EXPECT_EQ(engine.run(policy, Span::ms(50), Span::ms(900)), MegaHertz{1410});
  EXPECT_EQ(engine.run(policy, Span::ms(50), Span::ms(200)), MegaHertz{1305});
}

RC_GTEST_PROP(Miad, every_clock_can_be_locked_and_is_not_under_the_floor, ()) {
  const InstanceSpec spec = a100();
  MiadOptions options;
  options.factor = 1.0 + *rc::gen::inRange(1, 30) / 10.0;
  options.decrease = MegaHertz(*rc::gen::inRange(1, 500));
  options.floor = MegaHertz(*rc::gen::inRange(0, 1500));
  Miad policy(options);
  Engine engine(spec);
  for (int i = 0; i < 100; ++i) {
    const MegaHertz clock = engine.step(policy, Span::ms(*rc::gen::inRange(1, 400)));
    RC_ASSERT(std::ranges::count(spec.clocks, clock) == 1);
    RC_ASSERT(clock >= std::min(options.floor, spec.clocks.back()));
  }
}

/// No steps are reported: the view stays as it is, and delivered work is reported.
class Streams {
 public:
  explicit Streams(const InstanceSpec& spec) {
    view_.spec = &spec;
    view_.telemetry = Telemetry::Fresh;
    view_.step.shape.decode_requests = 8;
  }
  /// For `time`, ten times a second.
  MegaHertz run(Miad& policy, const Delivered& each, Span time) {
    MegaHertz clock;
    for (const Instant end = now_ + time; now_ < end; now_ += Span::ms(100)) {
      if (each != Delivered{}) policy.delivered(each);
      clock = policy.choose(view_, now_).clock;
    }
    return clock;
  }

 private:
  InstanceView view_;
  Instant now_;
};

Delivered tokens(std::int64_t count, Span gap) { return {.tokens = count, .gaps = gap * count}; }

TEST(Miad, LatenciesOfStreamsAreThoseOfSteps) {
  const InstanceSpec spec = a100();
  Miad policy{MiadOptions{}};
  Streams streams(spec);
  const MegaHertz calm = streams.run(policy, tokens(40, Span::ms(20)), Span::s(12));
  EXPECT_LE(calm, MegaHertz(400));
  EXPECT_GE(streams.run(policy, tokens(5, Span::ms(160)), Span::s(1)), MegaHertz(2 * calm.value()));
  streams.run(policy, tokens(40, Span::ms(20)), Span::s(20));
  const Delivered late{.prompts = 2, .prompt_tokens = 200, .waits = Span::ms(2 * 310)};
  EXPECT_GE(streams.run(policy, late, Span::s(1)), MegaHertz(600));
  const Delivered longer{.prompts = 2, .prompt_tokens = 2'000, .waits = Span::ms(2 * 310)};
  EXPECT_LE(streams.run(policy, longer, Span::s(20)), MegaHertz(315)) << "long prompts may take 600 ms";
}

TEST(Miad, WorkWithoutATokenForLongIsCongestion) {
  const InstanceSpec spec = a100();
  Miad policy{MiadOptions{}};
  Streams streams(spec);
  EXPECT_LE(streams.run(policy, tokens(40, Span::ms(20)), Span::s(12)), MegaHertz(400));
  EXPECT_EQ(streams.run(policy, {}, Span::s(5)), MegaHertz(1410));
}

}  // namespace
}  // namespace wattle::policy
