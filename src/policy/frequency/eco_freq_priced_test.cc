// EcoFreq with late_tokens.
#include <gtest/gtest.h>

#include "policy/frequency/eco_freq.h"
#include "policy/frequency/eco_freq_rig_test.h"

namespace wattle::policy {
namespace {

/// Runs steps of 40 ms at the low clock and 30 at the high one until there are gaps enough for a price. Returns their
/// end.
Instant warmed_up(Asked& policy, const Beliefs& beliefs) {
  Instant now;
  for (int i = 0; i < 2'000; ++i, now += Span::ms(40)) {
    (void)policy.choose(decoding(100, 100'000 + i % 2, now), beliefs, now);
  }
  return now;
}

TEST(PricedEcoFreq, AStepWhoseGapsAreLateAnywayIsHeldToItsPromptsAlone) {
  const auto model = typical();
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  auto priced = options();
  priced.late_tokens = 0.5;  // any value: least energy follows
  Asked policy(priced, beliefs);
  const Instant now = warmed_up(policy, beliefs);
  InstanceView both = decoding(100, 100'000, now);
  both.step.shape.prefill_requests = 1;
  both.step.shape.prefill_tokens = 1'000;  // 140 and 105 ms
  both.step.oldest_scheduled_arrival = now - Span::ms(100);
  EXPECT_EQ(policy.choose(both, beliefs, now).clock, kLow) << "500 ms are left for the prompt, and no gap can be kept";
  both.step.oldest_scheduled_arrival = now - Span::ms(470);
  EXPECT_EQ(policy.choose(both, beliefs, now).clock, kHigh) << "130 ms are";
  both.step.oldest_scheduled_arrival = now - Span::ms(700);
  EXPECT_EQ(policy.choose(both, beliefs, now).clock, kHigh) << "it is late, and others wait for it";
  both.step.oldest_scheduled_arrival = now - Span::ms(100);
  both.step.shape.prefill_tokens = 300;  // 70 and 52.5 ms
  EXPECT_EQ(policy.choose(both, beliefs, now).clock, kHigh) << "the high clock keeps these gaps";
  Asked published(options(), beliefs);
  both.step.shape.prefill_tokens = 1'000;
  EXPECT_EQ(published.choose(both, beliefs, now).clock, kHigh) << "the paper's goes up for what is lost";
}

TEST(PricedEcoFreq, WhatGapsCostIsLearntAgainForOtherObjectives) {
  const auto model = typical();
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  const InstanceSpec spec = believing(beliefs);
  auto priced = options();
  priced.late_tokens = 0.5;
  priced.dwell = Span();
  EcoFreq policy(priced, spec);
  Instant now;
  const auto clock_after = [&](int steps) {
    MegaHertz clock;
    for (int i = 0; i < steps; ++i, now += Span::ms(70)) {
      InstanceView view = decoding(100 + i % 2, 400'000, now);  // 70 and 52.5 ms
      view.spec = &spec;
      clock = policy.choose(view, now).clock;
    }
    return clock;
  };
  EXPECT_EQ(clock_after(2'000), kHigh) << "60 ms a gap";
  InstanceView view;
  view.spec = &spec;
  Slo loose = spec.slo;
  loose.itl = Span::ms(200);
  policy.held_to(view, loose);
  EXPECT_EQ(clock_after(1), kHigh) << "nothing is known of what these cost";
  EXPECT_EQ(clock_after(2'000), kLow);
  policy.held_to(view, spec.slo);
  EXPECT_EQ(clock_after(1), kHigh);
}

TEST(PricedEcoFreq, AnotherMeanGapLeavesWhatWasLearnt) {
  const auto model = typical();
  const CubicPower power;
  InstanceSpec spec = believing({&model, &power});
  spec.slo.itl.reset();
  spec.slo.tbt = Span::ms(200);
  auto priced = options();
  priced.late_tokens = 0.5;
  priced.dwell = Span();
  EcoFreq policy(priced, spec);
  Instant now;
  InstanceView view;
  const auto clock_after = [&](int steps) {
    MegaHertz clock;
    for (int i = 0; i < steps; ++i, now += Span::ms(70)) {
      view = decoding(100 + i % 2, 400'000, now);  // 70 and 52.5 ms
      view.spec = &spec;
      clock = policy.choose(view, now).clock;
    }
    return clock;
  };
  EXPECT_EQ(clock_after(2'000), kLow);
  Slo slo = spec.slo;
  slo.tbt = Span::ms(150);
  policy.held_to(view, slo);
  EXPECT_EQ(clock_after(1), kLow) << "not reset";
  slo.tbt = Span::ms(60);
  policy.held_to(view, slo);
  EXPECT_EQ(clock_after(1), kHigh) << "70 ms are over the budget";
  slo.ttft = Span::ms(500);
  slo.tbt = Span::ms(150);
  policy.held_to(view, slo);
  EXPECT_EQ(clock_after(1), kHigh) << "reset";
}

TEST(PricedEcoFreq, AnIdleClockOfItsOwnMayStillBeInForce) {
  const auto model = typical();
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  auto priced = options();
  priced.late_tokens = 0.5;
  priced.park_idle = true;
  priced.idle_clock = MegaHertz{1200};
  Asked policy(priced, beliefs);
  (void)policy.choose(decoding(100, 100'000), beliefs, Instant{});
  (void)policy.overrun(decoding(100, 100'000), Instant{Span::ms(10).ns()});
  EXPECT_EQ(policy.choose(InstanceView{}, beliefs, Instant{Span::ms(20).ns()}).clock, MegaHertz{1200});
  const auto after = policy.choose(decoding(1, 1'000, Instant{Span::ms(30).ns()}), beliefs, Instant{Span::ms(30).ns()});
  EXPECT_GE(after.clock, MegaHertz{1200}) << "the dwell after the overrun";
}

/// The clock while 100 decode beside two requests that wait, on this instance.
MegaHertz clock_while_two_wait(const InstanceSpec& spec, std::int64_t waiting_tokens, std::int64_t kv_tokens) {
  auto priced = options();
  priced.late_tokens = 0.5;
  Asked policy(priced, spec.beliefs);
  const Instant now = warmed_up(policy, spec.beliefs);
  InstanceView view = decoding(100, 100'000, now);
  view.step.waiting_requests = 2;
  view.step.waiting_prompt_tokens = waiting_tokens;
  view.step.kv_tokens = kv_tokens;
  return policy.choose_with(spec, view, now).clock;
}

TEST(PricedEcoFreq, RequestsThatWaitInTimeAskForNoMore) {
  const auto model = typical();
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  const auto clock = [&](std::int64_t waiting_tokens, std::int64_t kv_tokens) {
    return clock_while_two_wait(believing(beliefs), waiting_tokens, kv_tokens);
  };
  // This step and one with 1,000 tokens more: 180 ms at the low clock, 135 at the high one, of 570.
  EXPECT_EQ(clock(1'000, 0), kLow);
  EXPECT_EQ(clock(5'000, 0), kHigh) << "580 and 435 ms";
  EXPECT_EQ(clock(0, 0), kHigh) << "nobody says how much they bring";
  EXPECT_EQ(clock(1'000, 1'999'500), kHigh) << "they wait for room";
  EXPECT_EQ(clock(1'000, 1'900'000), kLow);
}

TEST(PricedEcoFreq, WherePromptsAreComputedAloneAGapLastsOverThem) {
  const auto model = typical();
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  auto priced = options();
  priced.late_tokens = 0.5;
  priced.dwell = Span();
  InstanceSpec spec = believing(beliefs);
  spec.decode_tokens = 0;
  const auto clocks = [&](std::int64_t prompt, Span took) {
    Asked policy(priced, beliefs);
    const Instant now = warmed_up(policy, beliefs);
    EXPECT_EQ(policy.choose_with(spec, decoding(99, 100'000, now), now).clock, kLow);
    const auto prompts = policy.choose_with(spec, prefilling(prompt, Span::ms(1), now), now).clock;
    const auto decodes = policy.choose_with(spec, decoding(101, 100'000, now + took), now + took).clock;
    const Instant later = now + took + Span::ms(40);
    EXPECT_EQ(policy.choose_with(spec, decoding(101, 100'000, later), later).clock, kLow) << "the next gap begins";
    return std::pair(prompts, decodes);
  };
  // A prompt of 100 tokens takes 30 ms at the low clock and 22.5 at the high one, the decodes 40 and 30.
  EXPECT_EQ(clocks(100, Span::ms(25)), std::pair(kHigh, kHigh)) << "70 ms would be too long for a gap of 60";
  EXPECT_EQ(clocks(1, Span::ms(19)), std::pair(kLow, kLow)) << "20.1 and 40";
  EXPECT_EQ(clocks(1'000, Span::ms(105)), std::pair(kLow, kLow)) << "the gap is late at any clock";
}

TEST(PricedEcoFreq, RequestsThatWaitForTheEnginesOwnLimitsAskForMore) {
  const auto model = typical();
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  const auto clock = [&](std::int32_t max_requests, std::int32_t max_step_tokens) {
    InstanceSpec spec = believing(beliefs);
    spec.max_requests = max_requests;
    spec.max_step_tokens = max_step_tokens;
    return clock_while_two_wait(spec, 1'000, 0);
  };
  EXPECT_EQ(clock(101, 8192), kLow);
  EXPECT_EQ(clock(100, 8192), kHigh) << "they wait until others finish";
  EXPECT_EQ(clock(101, 1'100), kLow);
  EXPECT_EQ(clock(101, 200), kHigh) << "in ten steps, for 100 tokens each beside the decodes";
}

TEST(PricedEcoFreq, WhileRequestsMissTheirObjectivesLessIsSaved) {
  const auto model = typical();
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  const auto clock_after = [&](double late_requests, int late, int in_time, std::vector<double> of_class = {},
                               int times = 1) {
    auto priced = options();
    priced.late_tokens = 0.5;
    priced.late_requests = late_requests;
    priced.late_requests_of = std::move(of_class);
    Asked policy(priced, beliefs);
    for (int i = 0; i < times; ++i) {
      policy.finished(late, late);
      policy.finished(in_time, 0);
    }
    const Instant now = warmed_up(policy, beliefs);
    InstanceView both = decoding(100, 100'000, now);  // no clock keeps these gaps: the price decides
    both.step.shape.prefill_requests = 1;
    both.step.shape.prefill_tokens = 1'000;
    return policy.choose(both, beliefs, now).clock;
  };
  EXPECT_EQ(clock_after(0.1, 0, 0), kLow);
  EXPECT_EQ(clock_after(0.1, 1'000, 0), kHigh) << "and no price keeps them";
  EXPECT_EQ(clock_after(0.1, 1'000, 9'000), kLow) << "a tenth may be late";
  EXPECT_EQ(clock_after(0.0, 1'000, 0), kLow) << "nobody listens";
  EXPECT_EQ(clock_after(0.1, 1'000, 0, {1.0}), kLow) << "no instance keeps any of this class";
  EXPECT_EQ(clock_after(0.1, 1'000, 100, {0.1, 1.0}), kHigh) << "of another class";
  EXPECT_EQ(clock_after(0.01, 1, 99, {}, 30), kLow) << "as many as may be";
  EXPECT_EQ(clock_after(0.01, 4, 96, {}, 30), kHigh) << "four times as many are no chance";
  EXPECT_EQ(clock_after(0.01, 2, 98, {}, 3), kLow) << "three more may be";
}

TEST(PricedEcoFreq, AStepLeavesTimeForWhoComesWhileItRuns) {
  const auto model = typical();
  const CubicPower power;
  InstanceSpec spec = believing({&model, &power});
  // The clock of a step of one decode, 20.1 ms at the low clock, where one step in ten computes 300 prompt tokens: 37.6
  // ms at the high one.
  const auto clock = [&](bool newcomers, Span ttft, bool varies = false) {
    spec.slo.ttft = ttft;
    spec.slo.ttft_varies = varies;
    auto priced = options();
    priced.late_tokens = 0.05;
    priced.newcomers = newcomers;
    EcoFreq policy(priced, spec);
    Instant now;
    MegaHertz last;
    for (int i = 0; i < 3'000; ++i, now += Span::ms(40)) {
      InstanceView view = decoding(1, 100, now);
      view.spec = &spec;
      view.step.shape.prefill_requests = i % 10 == 0 ? 1 : 0;
      view.step.shape.prefill_tokens = 300 * view.step.shape.prefill_requests;
      view.step.oldest_scheduled_arrival = now;
      last = policy.choose(view, now).clock;
    }
    return last;
  };
  EXPECT_EQ(clock(true, Span::ms(60)), kLow) << "22 ms are left";
  EXPECT_EQ(clock(true, Span::ms(55)), kHigh) << "17 ms are";
  EXPECT_EQ(clock(false, Span::ms(55)), kLow);
  EXPECT_EQ(clock(true, Span::ms(55), true), kLow) << "it is the strictest of several, and need not be theirs";
}

/// The clock of a decode instance with 200 requests: 100 have arrived per second and none has finished; or (`ends`) for
/// minutes one has finished, and another arrived, every 10 ms.
MegaHertz in_a_crowd(bool carries_load, Role role, bool ends = false) {
  const auto model = typical();
  InstanceSpec spec = believing({&model, nullptr});
  spec.role = role;
  EcoFreqOptions with = options();
  with.carries_load = carries_load;
  EcoFreq policy(with, spec);
  const auto choose = [&](std::int32_t requests, Instant now) {
    InstanceView view = decoding(requests, 100 * requests);
    view.spec = &spec;
    return policy.choose(view, now).clock;
  };
  MegaHertz clock;
  for (int n = 1; n <= (ends ? 20'000 : 200); ++n) {
    const Instant now = Instant{} + Span::ms(10 * n);
    if (ends) (void)choose(199, now - Span::ms(5));
    clock = choose(ends ? 200 : n, now);
  }
  return clock;
}

TEST(EcoFreq, ADecodeInstanceRunsAtNoClockThatItsLoadWouldOutgrow) {
  EXPECT_EQ(in_a_crowd(false, Role::Decode), kLow) << "the step of 42 ms is within the 60";
  EXPECT_EQ(in_a_crowd(true, Role::Decode), kHigh) << "but these answers may be long";
  EXPECT_EQ(in_a_crowd(true, Role::Decode, true), kLow) << "short";
  EXPECT_EQ(in_a_crowd(true, Role::Colocated), kLow) << "colocated instances have a price of time instead";
}

}  // namespace
}  // namespace wattle::policy
