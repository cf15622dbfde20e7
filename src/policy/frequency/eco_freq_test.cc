#include "policy/frequency/eco_freq.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "base/random.h"
#include "policy/frequency/eco_freq_rig_test.h"

namespace wattle::policy {
namespace {

TEST(ClockRule, BelowTheSweetSpotOnlyWhatWasMeasured) {
  InstanceSpec spec;
  spec.gpu.clock_max = MegaHertz{1410};
  spec.gpu.clock_step = MegaHertz{15};
  spec.sweet_clock = MegaHertz{1005};
  const std::vector<ClockSetting> clocks{ClockSetting::from_sweet(-0.3), ClockSetting::sweet(),
                                         ClockSetting::highest()};
  const auto rule_of = [&] { return make_clock_rule(clocks, spec, 0.0).clocks; };
  spec.gpu.clock_min = MegaHertz{210};
  EXPECT_EQ(rule_of(), (std::vector{MegaHertz{765}, MegaHertz{1005}, MegaHertz{1410}})) << "nobody knows";
  spec.measured_from = MegaHertz{705};
  EXPECT_EQ(rule_of(), (std::vector{MegaHertz{915}, MegaHertz{1005}, MegaHertz{1410}}));
  spec.beliefs.clocks = {MegaHertz{1005}, MegaHertz{1410}};
  EXPECT_EQ(rule_of(), (std::vector{MegaHertz{1005}, MegaHertz{1410}})) << "equal ones once";
  spec.measured_from = MegaHertz{1200};
  EXPECT_EQ(rule_of(), (std::vector{MegaHertz{1005}, MegaHertz{1410}})) << "the sweet spot itself is its finder's";
}

TEST(EcoFreq, TakesTheLowestClockWithinTheDecodeBudget) {
  const auto model = typical();
  Asked policy(options());
  // 20 ms + 100 x 0.1 ms + kv x 100 ns <= 60 ms up to exactly 300,000 KV tokens.
  const auto low = policy.choose(decoding(100, 300'000), {&model, nullptr}, Instant{});
  EXPECT_EQ(low.clock, kLow);
  EXPECT_EQ(low.hold.kv_tokens_max, 300'000);
  EXPECT_EQ(low.hold.until, Instant::never());
  EXPECT_EQ(policy.choose(decoding(100, 300'001), {&model, nullptr}, Instant{}).clock, kHigh);
}

TEST(EcoFreq, StepsOfDecodesAloneKeepTheMeanGapToo) {
  const auto model = typical();
  InstanceSpec spec = believing({&model, nullptr});
  const auto asked = [&](const InstanceView& view) {
    return Asked(options(), spec).choose_with(spec, view, Instant{});
  };
  InstanceView mixed = decoding(100, 100'000);
  mixed.step.shape.prefill_tokens = 200;  // 20 ms more, of one gap
  mixed.step.shape.prefill_requests = 1;
  spec.slo.tbt = Span::ms(40);  // 20 ms + 100 x 0.1 ms + kv x 100 ns up to 100,000 KV tokens
  EXPECT_EQ(asked(decoding(100, 1'000)).hold.kv_tokens_max, 100'000);
  EXPECT_EQ(asked(mixed).clock, kLow);
  spec.slo.itl.reset();
  EXPECT_EQ(asked(decoding(100, 1'000)).hold.kv_tokens_max, 100'000);
  EXPECT_EQ(asked(mixed).clock, kHigh) << "where no single gap is judged each keeps to the mean's";
}

TEST(EcoFreq, NoClockWithinBudgetMeansTheMaximumWhateverTheKvCacheDoes) {
  const auto model = typical();
  Asked policy(options());
  const auto decision = policy.choose(decoding(100, 2'000'000), {&model, nullptr}, Instant{});
  EXPECT_EQ(decision.clock, kHigh);
  EXPECT_STREQ(decision.reason, "no clock within budget: maximum");
  EXPECT_GT(decision.hold.kv_tokens_max, 1'000'000'000);
}

TEST(EcoFreq, DoesNotRaiseInVainAsLongAsTheMaximumIsNoFaster) {
  // Its host takes 70 ms at any clock, beyond the 60 ms of the objective; the GPU less up to 50,000 KV tokens.
  const PlaneModel model({{kLow, {65'000'000, 0, 100, 0}}, {kHigh, {70'000'000, 0, 0, 0}}});
  Asked published(options());
  EXPECT_EQ(published.choose(decoding(100, 10'000), {&model, nullptr}, Instant{}).clock, kHigh);
  EcoFreqOptions ours = options();
  ours.raises_in_vain = false;
  Asked policy(ours);
  const auto decision = policy.choose(decoding(100, 10'000), {&model, nullptr}, Instant{});
  EXPECT_EQ(decision.clock, kLow);
  EXPECT_STREQ(decision.reason, "no clock within budget, none faster");
  EXPECT_EQ(decision.hold.kv_tokens_max, 50'000);
  EXPECT_EQ(policy.choose(decoding(100, 50'001), {&model, nullptr}, Instant{}).clock, kHigh);
}

TEST(EcoFreq, WaitingTimeIsTakenFromThePrefillBudget) {
  const auto model = typical();
  // 3,000 tokens: 320 ms at the low clock, 240 ms at the high one.
  const Instant at(Span::s(5).ns());
  Asked fresh(options());
  EXPECT_EQ(fresh.choose(prefilling(3'000, Span::ms(280), at), {&model, nullptr}, at).clock, kLow);
  Asked late(options());
  EXPECT_EQ(late.choose(prefilling(3'000, Span::ms(281), at), {&model, nullptr}, at).clock, kHigh);
  Asked hopeless(options());
  EXPECT_EQ(hopeless.choose(prefilling(3'000, Span::s(3), at), {&model, nullptr}, at).clock, kHigh);
}

TEST(EcoFreq, ColocatedStepMustMeetBothBudgets) {
  const auto model = typical();
  Asked policy(options());
  auto view = prefilling(300, Span{}, Instant{});
  EXPECT_EQ(policy.choose(view, {&model, nullptr}, Instant{}).clock, kLow);
  view.step.shape.decode_requests = 100;  // 20 + 30 + 10 ms: just within the decodes' 60 ms
  EXPECT_EQ(policy.choose(view, {&model, nullptr}, Instant{}).clock, kLow);
  view.step.shape.prefill_tokens = 301;
  EXPECT_EQ(policy.choose(view, {&model, nullptr}, Instant{}).clock, kHigh);
}

TEST(EcoFreq, WaitingRequestsMeanTheMaximumWithoutAskingThePredictor) {
  const auto model = typical();
  Asked policy(options());
  auto view = decoding(1, 1);
  view.step.waiting_requests = 1;
  EXPECT_EQ(policy.choose(view, {&model, nullptr}, Instant{}).clock, kHigh);
  EXPECT_EQ(model.asked, 0);
  // Where waiting has a price, too, nothing can be predicted of what only waits.
  const PlaneModel by_requests({{kLow, {0, 100, 0, 100}}, {kHigh, {0, 75, 0, 75}}});
  const CubicPower power;
  EcoFreqOptions at_a_price = options();
  at_a_price.late_tokens = 0.01;
  Asked priced(at_a_price, {&by_requests, &power});
  view.step.shape = {};
  const auto decision = priced.choose(view, {&by_requests, &power}, Instant{});
  EXPECT_EQ(decision.clock, kHigh);
  EXPECT_STREQ(decision.reason, "requests wait: maximum");
  EXPECT_EQ(priced.disbelieved(), 0);
}

TEST(EcoFreq, IdleGoesDownAndLostGoesUp) {
  const auto model = typical();
  auto o = options();
  o.park_idle = true;
  o.idle_clock = MegaHertz{210};
  Asked policy(o);
  InstanceView view;  // without any report: idle
  EXPECT_EQ(policy.choose(view, {&model, nullptr}, Instant{}).clock, MegaHertz{210});
  view.telemetry = Telemetry::Lost;
  const auto lost = policy.choose(view, {&model, nullptr}, Instant{});
  EXPECT_EQ(lost.clock, kHigh);
  EXPECT_STREQ(lost.reason, "telemetry lost: maximum");
  view.telemetry = Telemetry::Idle;  // idle again: at once, whatever the dwell
  EXPECT_EQ(policy.choose(view, {&model, nullptr}, Instant{1}).clock, MegaHertz{210});
}

TEST(EcoFreq, DwellDelaysDecreasesAndOnlyThose) {
  const auto model = typical();
  Asked policy(options());
  const Beliefs beliefs{&model, nullptr};
  const auto clock_at = [&](Span t, std::int64_t kv) {
    return policy.choose(decoding(100, kv, Instant(t.ns())), beliefs, Instant(t.ns()));
  };
  EXPECT_EQ(clock_at(Span::ms(0), 1'000).clock, kLow);
  EXPECT_EQ(clock_at(Span::ms(10), 400'000).clock, kHigh) << "a raise never waits";
  const auto kept = clock_at(Span::ms(100), 1'000);
  EXPECT_EQ(kept.clock, kHigh);
  EXPECT_STREQ(kept.reason, "dwell after a raise");
  EXPECT_EQ(kept.hold.until, Instant(Span::ms(210).ns()));
  EXPECT_EQ(clock_at(Span::ms(150), 400'000).clock, kHigh) << "staying high is no raise and starts no new dwell";
  EXPECT_EQ(clock_at(Span::ms(210) - Span::ns(1), 1'000).clock, kHigh);
  EXPECT_EQ(clock_at(Span::ms(210), 1'000).clock, kLow);
}

TEST(EcoFreq, AWindowsFirstDecisionStandsUntilItEnds) {
  const auto model = typical();
  auto o = options();
  o.window = Span::s(1);
  o.dwell = Span();
  Asked policy(o);
  const Beliefs beliefs{&model, nullptr};
  const auto choose = [&](Span t, InstanceView view) { return policy.choose(view, beliefs, Instant(t.ns())); };
  const auto first = choose(Span::ms(0), decoding(100, 1'000));
  EXPECT_EQ(first.clock, kLow);
  EXPECT_EQ(first.hold.until, Instant(Span::s(1).ns()));
  EXPECT_TRUE(first.hold.covers(10'000'000, Instant(Span::ms(999).ns())));
  EXPECT_EQ(choose(Span::ms(500), decoding(100, 400'000)).clock, kLow) << "per iteration it would rise";
  const auto raised = choose(Span::ms(1'000), decoding(100, 400'000));
  EXPECT_EQ(raised.clock, kHigh);
  EXPECT_EQ(raised.hold.until, Instant(Span::s(2).ns()));
  EXPECT_EQ(choose(Span::ms(1'500), InstanceView{}).clock, kHigh) << "idle within the window";
  EXPECT_EQ(choose(Span::ms(2'000), decoding(100, 1'000)).clock, kLow);
  auto lost = decoding(100, 1'000);
  lost.telemetry = Telemetry::Lost;
  EXPECT_EQ(choose(Span::ms(2'500), lost).clock, kHigh) << "nothing waits for a window when telemetry is lost";
  EXPECT_EQ(choose(Span::ms(2'600), decoding(100, 1'000)).clock, kHigh) << "and the window goes on there";
}

TEST(ClockRule, ARaiseAppliesOnlyAfterItsDelay) {
  EXPECT_EQ(raised_time(Span::ms(80), Span::ms(40), Span()), Span::ms(40));
  EXPECT_EQ(raised_time(Span::ms(80), Span::ms(40), Span::ms(20)), Span::ms(50)) << "a quarter, and then three";
  EXPECT_EQ(raised_time(Span::ms(20), Span::ms(10), Span::ms(20)), Span::ms(20)) << "over before it applies";

  const MegaHertz middle{1200};
  const PlaneModel model(
      {{kLow, {80'000'000, 0, 0, 0}}, {middle, {58'000'000, 0, 0, 0}}, {kHigh, {40'000'000, 0, 0, 0}}});
  const ClockRule rule{{kLow, middle, kHigh}, Span::max(), Span::ms(60)};
  StepShape shape;
  shape.decode_requests = 1;
  const auto clock = [&](Span budget, const Present& present) {
    return clock_for(rule, shape, 0, budget, &model, present).clock;
  };
  EXPECT_EQ(clock(Span::ms(60), {}), middle);
  EXPECT_EQ(clock(Span::ms(60), {kLow, Span::ms(23)}), kHigh) << "64.3 ms at the middle clock, 51.5 at the high one";
  EXPECT_EQ(clock(Span::ms(60), {middle, Span::ms(23)}), middle);
  EXPECT_EQ(clock(Span::ms(60), {kHigh, Span::ms(23)}), middle) << "a decrease is late, too, and does no harm";
  EXPECT_EQ(clock(Span::ms(65), {kLow, Span::ms(23)}), middle);
  EXPECT_EQ(clock(Span::ms(45), {kLow, Span::ms(23)}), kHigh) << "not in time";
  EXPECT_EQ(clock(Span::ms(60), {kLow, Span::ms(90)}), middle) << "for the steps that follow";
}

TEST(EcoFreq, AClockThatOnlyARaisesDelayNeedsIsNotKept) {
  const MegaHertz middle{1200};
  const PlaneModel model(
      {{kLow, {20'000'000, 0, 400, 0}}, {middle, {20'000'000, 0, 380, 0}}, {kHigh, {20'000'000, 0, 200, 0}}});
  EcoFreqOptions with = options();
  with.clocks = {kLow, middle, kHigh};
  with.dwell = Span();
  const auto last_of = [&](bool raises_take_time, std::vector<std::int64_t> kv_tokens) {
    with.raises_take_time = raises_take_time;
    InstanceSpec spec = believing({&model});
    spec.role = Role::Decode;
    spec.clock_delay = Span::ms(23);
    EcoFreq policy(with, spec);
    ClockDecision last;
    for (const std::int64_t kv : kv_tokens) {
      InstanceView view = decoding(10, kv);
      view.spec = &spec;
      last = policy.choose(view, Instant{});
    }
    return last;
  };
  // 105,000 tokens: 62 ms at the low clock, 59.9 at the middle one and 41 at the high one.
  EXPECT_EQ(last_of(false, {1'000, 105'000}).clock, middle);
  const ClockDecision raised = last_of(true, {1'000, 105'000});
  EXPECT_EQ(raised.clock, kHigh) << "60.7 ms if the middle one applies after 23";
  EXPECT_LT(raised.hold.kv_tokens_max, 105'000);
  EXPECT_EQ(last_of(true, {1'000, 105'000, 105'000}).clock, middle);
}

TEST(EcoFreq, MarginIsKeptFromBothObjectives) {
  const auto model = typical();
  auto o = options();
  o.margin = 0.25;  // 45 ms for decodes: 150,000 KV tokens at 100 requests; 450 ms for prefills
  Asked policy(o);
  EXPECT_EQ(policy.choose(decoding(100, 1'000), {&model, nullptr}, Instant{}).hold.kv_tokens_max, 150'000);
  EXPECT_EQ(policy.choose(prefilling(4'300, Span{}, Instant{}), {&model, nullptr}, Instant{}).clock, kLow);
  EXPECT_EQ(policy.choose(prefilling(4'301, Span{}, Instant{}), {&model, nullptr}, Instant{}).clock, kHigh);
}

TEST(EcoFreq, APartOfAPromptLeavesTimeForTheRest) {
  const auto model = typical();
  const auto clock = [&](bool later_chunks, std::int64_t tokens, std::int32_t prompts, Span waited) {
    auto o = options();
    o.later_chunks = later_chunks;
    const Instant now = Instant{} + Span::s(1);
    InstanceView view = prefilling(tokens, waited, now);
    view.step.shape.prefill_requests = prompts;
    view.step.unfinished_prompt_tokens = tokens;
    return Asked(o).choose(view, {&model, nullptr}, now).clock;
  };
  EXPECT_EQ(clock(false, 2'900, 1, Span()), kLow) << "310 of 600 ms";
  EXPECT_EQ(clock(true, 2'900, 1, Span()), kHigh) << "twice 310 ms";
  EXPECT_EQ(clock(true, 2'700, 1, Span()), kLow) << "twice 290 ms";
  EXPECT_EQ(clock(true, 2'700, 1, Span::ms(40)), kHigh) << "560 ms are left for both";
  EXPECT_EQ(clock(true, 2'700, 2, Span::ms(40)), kLow) << "the unfinished one has just come";
}

TEST(EcoFreq, KeepsTheObjectivesOfThePresent) {
  const auto model = typical();
  const InstanceSpec spec = believing({&model, nullptr});
  auto without_dwell = options();
  without_dwell.dwell = Span();
  EcoFreq policy(without_dwell, spec);
  InstanceView view = decoding(100, 400'000);  // 70 ms at the low clock, 52.5 at the high one
  view.spec = &spec;
  const auto clock = [&](InstanceView of) {
    of.spec = &spec;
    return policy.choose(of, Instant{}).clock;
  };
  EXPECT_EQ(clock(view), kHigh) << "60 ms";
  Slo loose;
  loose.ttft = Span::s(2);
  loose.tbt = Span::ms(200);
  policy.held_to(view, loose);
  EXPECT_EQ(clock(view), kLow);
  EXPECT_EQ(clock(prefilling(6'000, Span(), Instant{})), kLow) << "620 ms, where 600 are allowed by its spec";
  policy.held_to(view, spec.slo);
  EXPECT_EQ(clock(view), kHigh);
  EXPECT_EQ(clock(prefilling(6'000, Span(), Instant{})), kHigh);
}

TEST(EcoFreq, NonsenseIsNotBelievedAndCounted) {
  for (const std::int64_t ns : {std::int64_t{0}, std::int64_t{-5}, Span::s(601).ns(), kAnyKv}) {
    const PlaneModel model({{kLow, {ns, 0, 0, 0}}, {kHigh, {1'000, 0, 0, 0}}});
    Asked policy(options());
    const auto decision = policy.choose(decoding(1, 1), {&model, nullptr}, Instant{});
    EXPECT_EQ(decision.clock, kHigh) << ns;
    EXPECT_STREQ(decision.reason, "predictor out of range: maximum");
    EXPECT_FALSE(decision.hold.covers(1, Instant{1})) << "ask again at once";
    EXPECT_EQ(policy.disbelieved(), 1);
  }
  Asked blind(options());
  EXPECT_EQ(blind.choose(decoding(1, 1), {}, Instant{}).clock, kHigh);
  EXPECT_EQ(blind.disbelieved(), 1);
}

/// A uniform integer in [low, high); RapidCheck's own ranges start small and rarely meet the borders of interest.
std::int64_t between(RandomStream& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low)));
}

/// Monotone in KV tokens, as LatencyModel demands. Plausible (a lower clock is slower), or anything (slower at higher
/// clocks, negative for small batches), or fine at the top while the lower clocks leave the believable range.
PlaneModel any_model(const std::vector<MegaHertz>& clocks, RandomStream& random) {
  const auto kind = random.below(3);
  const bool promises = random.below(4) != 0;
  const Plane slow{between(random, 1, 60'000'000), between(random, 0, 200'000), between(random, 0, 200), 50'000};
  const std::int64_t breaking = between(random, 700'000, 2'000'000);  // ns a KV token: 600 s at 300,000 to 860,000
  std::map<MegaHertz, Plane> planes;
  for (const MegaHertz clock : clocks) {
    const auto at = [&](std::int64_t ns) { return ns * 1005 / clock.value(); };
    if (kind == 0) {
      planes[clock] = {at(slow.constant_ns), at(slow.per_request_ns), at(slow.per_kv_token_ns), 50'000};
    } else if (kind == 1) {
      planes[clock] = {between(random, -20'000'000, 60'000'000), between(random, 0, 200'000), between(random, 0, 200),
                       between(random, 0, 100'000)};
    } else {
      planes[clock] = {1'000'000, 0, clock >= clocks[clocks.size() / 2] ? 10 : breaking, 1'000};
    }
  }
  return PlaneModel(std::move(planes), promises);
}

/// Between changes of membership a driver runs decode steps, each adding one KV token a request; now and then it is
/// idle, loses telemetry, or prefills.
RC_GTEST_PROP(EcoFreqProperty, SkippingHeldStepsGivesTheSameClocks, (std::uint64_t seed)) {
  RandomStream random(seed, "eco-freq trajectory");
  auto o = options();
  std::vector<MegaHertz> clocks{kLow, kHigh};
  if (random.below(2) == 0) clocks = {kLow, MegaHertz{1095}, MegaHertz{1200}, MegaHertz{1305}, kHigh};
  o.clocks.assign(clocks.begin(), clocks.end());
  o.park_idle = true;
  o.idle_clock = random.below(2) == 0 ? MegaHertz{210} : MegaHertz{1200};
  o.dwell = Span::ms(between(random, 0, 2'000));
  o.margin = static_cast<double>(random.below(3)) * 0.2;
  if (random.below(3) == 0) o.window = Span::ms(between(random, 1, 5'000));
  if (random.below(3) == 0) o.late_tokens = 0.001 * static_cast<double>(between(random, 1, 50));
  const auto model = any_model(clocks, random);
  const CubicPower power;
  const Beliefs beliefs{&model, &power};
  Asked every(o, beliefs);
  Asked held(o, beliefs);

  Instant now;
  for (int stretch = 0; stretch < 12; ++stretch) {
    const auto kind = random.below(12);  // 0 idle, 1 lost, 2 prefill, 3 colocated, else decodes
    InstanceView view = decoding(static_cast<std::int32_t>(between(random, 1, 500)), between(random, 0, 800'000), now);
    if (random.below(8) == 0) view.step.waiting_requests = 3;
    view.step.waiting_prompt_tokens = between(random, 0, 9'000);
    if (kind == 0) view = InstanceView{};
    if (kind == 1) view.telemetry = Telemetry::Lost;
    if (kind == 2 || kind == 3) view.step.shape.prefill_tokens = between(random, 1, 8'000);
    if (kind == 2) view.step.shape.decode_requests = 0;
    const int steps = kind < 4 ? 1 : static_cast<int>(between(random, 1, 400));
    const Span step_time(between(random, 1'000'000, 60'000'000));

    Hold hold;  // membership changed: decide again
    MegaHertz held_clock;
    for (int step = 0; step < steps; ++step) {
      view.step.start = now;
      view.step.oldest_scheduled_arrival = now - step_time * 7;
      const MegaHertz every_clock = every.choose(view, beliefs, now).clock;
      if (step == 0 || !hold.covers(view.step.shape.decode_kv_tokens, now)) {
        const auto decision = held.choose(view, beliefs, now);
        held_clock = decision.clock;
        hold = decision.hold;
      }
      RC_ASSERT(every_clock == held_clock);
      now += step_time;
      view.step.shape.decode_kv_tokens += view.step.shape.decode_requests;
    }
  }
}

/// Of one role, with late_handovers.
struct Apart {
  PlaneModel model = typical();
  InstanceSpec spec;
  EcoFreq policy;
  explicit Apart(Role role, double late = 0.1, double yield = 0.0)
      : spec(believing({&model, nullptr})), policy(with(late, yield), as(role)) {}
  MegaHertz clock(InstanceView view) {
    view.spec = &spec;
    return policy.choose(view, view.step.start).clock;
  }

 private:
  static EcoFreqOptions with(double late, double yield) {
    auto o = options();
    o.step_yield = yield;
    o.late_handovers = late;
    o.dwell = Span();
    return o;
  }
  const InstanceSpec& as(Role role) {
    spec.role = role;
    return spec;
  }
};

TEST(EcoFreq, APromptLeavesTimeForWhatAllButAFewHandOversWait) {
  // 20 ms + 800 x 0.1 ms = 100 ms at the low clock and 75 at the high one, of 600.
  const InstanceView prompt = prefilling(800, Span(), Instant(Span::s(1).ns()));
  Apart apart(Role::Prefill);
  for (int i = 0; i < 9; ++i) apart.policy.handed_over(Span::ms(100), Span::ms(200));
  EXPECT_EQ(apart.clock(prompt), kLow) << "400 ms are left, four such steps";
  apart.policy.handed_over(Span::ms(100), Span::ms(500));
  EXPECT_EQ(apart.clock(prompt), kLow) << "one in ten may be late";
  apart.policy.handed_over(Span::ms(100), Span::ms(201));
  EXPECT_EQ(apart.clock(prompt), kHigh);
  EXPECT_EQ(apart.clock(prefilling(790, Span(), Instant(Span::s(1).ns()))), kLow) << "99 of 399 / 4";
  EXPECT_EQ(apart.clock(prefilling(790, Span::ms(301), Instant(Span::s(1).ns()))), kHigh) << "its own 98 are less";
  Apart late(Role::Prefill);
  for (const int wait_ms : {200, 451}) {
    for (int i = 0; i < 20; ++i) late.policy.handed_over(Span::ms(100), Span::ms(wait_ms));
  }
  EXPECT_EQ(late.clock(prompt), kLow) << "no clock saves those that wait for 451 ms";
  Apart nobody(Role::Prefill);
  EXPECT_EQ(nobody.clock(prefilling(1'300, Span(), Instant(Span::s(1).ns()))), kLow) << "150 ms; no hand-over yet";
  EXPECT_EQ(nobody.clock(prefilling(1'301, Span(), Instant(Span::s(1).ns()))), kHigh);

  Apart published(Role::Prefill, 0.0);
  for (int i = 0; i < 20; ++i) published.policy.handed_over(Span::ms(100), Span::ms(599));
  EXPECT_EQ(published.clock(prompt), kLow) << "the paper's looks at no hand-over";
}

TEST(EcoFreq, ADecodeStepIsOneThatFirstTokensWouldHaveBorne) {
  const InstanceView batch = decoding(100, 100'000);  // 40 ms at the low clock, 30 at the high one, of 60
  Apart apart(Role::Decode);
  EXPECT_EQ(apart.clock(batch), kLow);
  // Ten passes of 40 ms after 200 ms: 400 ms are left for ten. Eleven are too many.
  for (int i = 0; i < 10; ++i) apart.policy.handed_over(Span::ms(200), Span::ms(400));
  EXPECT_EQ(apart.clock(batch), kLow);
  apart.policy.handed_over(Span::ms(200), Span::ms(440));
  EXPECT_EQ(apart.clock(batch), kLow) << "one in eleven";
  apart.policy.handed_over(Span::ms(200), Span::ms(440));
  EXPECT_EQ(apart.clock(batch), kHigh) << "two in twelve are more than a tenth";
  // Eleven passes of the high clock's 30 ms: the same, of each its own steps.
  for (int i = 0; i < 600; ++i) apart.policy.handed_over(Span::ms(200), Span::ms(330));
  EXPECT_EQ(apart.clock(batch), kHigh);
  for (int i = 0; i < 600; ++i) apart.policy.handed_over(Span::ms(200), Span::ms(299));
  EXPECT_EQ(apart.clock(batch), kLow);
  for (int i = 0; i < 300; ++i) apart.policy.handed_over(Span::ms(200), Span::ms(600));
  EXPECT_EQ(apart.clock(batch), kLow) << "15 of the low clock's steps: no clock saves them";
  for (int i = 0; i < 600; ++i) apart.policy.handed_over(Span::ms(601), Span::ms(300));
  EXPECT_EQ(apart.clock(batch), kLow) << "one that was late anyway says nothing of steps";
}

TEST(EcoFreq, AStepThatGivesSeveralTokensMayTakeTheirTime) {
  InstanceView batch = decoding(100, 900'000);  // 120 ms at the low clock and 90 at the high one, of 60 a token
  const auto clock = [&](double share, double tokens, Role role = Role::Decode) {
    batch.tokens_per_step = tokens;
    return Apart(role, 0.0, share).clock(batch);
  };
  EXPECT_EQ(clock(1.0, 2.0), kLow);
  EXPECT_EQ(clock(1.0, 1.9), kHigh);
  EXPECT_EQ(clock(0.8, 2.2), kHigh) << "1 + 0.8 x 1.2";
  EXPECT_EQ(clock(0.8, 2.25), kLow);
  EXPECT_EQ(clock(0.0, 5.0), kHigh) << "the paper's knows of none";
  EXPECT_EQ(clock(1.0, 5.0, Role::Colocated), kHigh) << "prompts come between";
  batch = decoding(100, 533'000);  // 83.3 and 62.5 ms
  EXPECT_EQ(clock(1.0, 5.0), kHigh) << "the gap before each step's tokens may yet be kept";
}

TEST(EcoFreq, AHoldSparesNearlyEveryQuestion) {
  const auto model = typical();
  Asked policy(options());
  int asked = 0;
  int changes = 0;
  Hold hold;
  MegaHertz clock;
  Instant now;
  for (std::int64_t kv = 100'000; kv < 2'000'000; kv += 100, now += Span::ms(40)) {
    if (hold.covers(kv, now)) continue;
    const auto decision = policy.choose(decoding(100, kv, now), {&model, nullptr}, now);
    ++asked;
    changes += decision.clock != clock ? 1 : 0;
    clock = decision.clock;
    hold = decision.hold;
  }
  EXPECT_EQ(changes, 2);  // low, then high where the low clock no longer does
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace wattle::policy
