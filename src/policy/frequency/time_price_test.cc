#include "policy/frequency/time_price.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/random.h"

namespace wattle::policy {
namespace {

constexpr MegaHertz kLow{600};
constexpr MegaHertz kMiddle{900};
constexpr MegaHertz kHigh{1200};
const std::vector<MegaHertz> kClocks{kLow, kMiddle, kHigh};

/// 10 ms at the high clock plus a time per request and prompt; half of it scales with 1 / clock.
class Steps final : public LatencyModel {
 public:
  explicit Steps(double ms_per_request) : ms_per_request_(ms_per_request) {}
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const int requests = std::min(shape.decode_requests, most);
    const double ms = 10.0 + ms_per_request_ * (requests - 1) + 0.1 * static_cast<double>(shape.prefill_tokens);
    return Span::from_seconds(1e-3 * ms * (0.5 + 0.5 * kHigh.value() / clock.value()));
  }
  int most = 1'000'000;  ///< more requests take no longer

 private:
  double ms_per_request_;
};

/// 100 W and 300 more at the high clock, by its cube: least energy at the low clock, where steps take half as long
/// again for half the energy; at the middle one a sixth longer for two thirds.
class Draw final : public PowerModel {
 public:
  [[nodiscard]] Milliwatts step_power(const StepShape& shape, MegaHertz clock) const override {
    if (idle_w && shape.decode_requests == 0 && shape.prefill_tokens == 0) return to_milliwatts(Watts(*idle_w));
    const double share = static_cast<double>(clock.value()) / kHigh.value();
    return Milliwatts(static_cast<std::int64_t>(1e3 * (base_w + 300.0 * share * share * share)));
  }
  double base_w = 100.0;
  std::optional<double> idle_w;  ///< without: the low clock's
};

Slo gaps(std::optional<Span> itl, std::optional<Span> mean = {}) { return {{}, itl, mean, {}}; }

/// Decodes one after the other, and now and then a step with a prompt.
class Running {
 public:
  explicit Running(double late_tokens, double ms_per_request = 0.0)
      : Running(gaps(Span::ms(50)), late_tokens, ms_per_request) {}
  Running(const Slo& slo, double late_tokens, double ms_per_request, Span clock_delay = {})
      : late_tokens_(late_tokens), steps_(ms_per_request) {
    spec_.beliefs.latency = &steps_;
    spec_.beliefs.power = &draw_;
    spec_.slo = slo;
    price_.emplace(kClocks, late_tokens, spec_, clock_delay);
  }
  MegaHertz step(std::int32_t requests, std::int64_t prompt = 0, std::int32_t waiting = 0, bool full = false) {
    StepShape shape;
    shape.decode_requests = requests;
    shape.prefill_tokens = prompt;
    shape.prefill_requests = prompt > 0 ? 1 : 0;
    const auto chosen =
        price_->choose({.shape = shape, .waiting = waiting, .full = full, .waited = waited, .before = before}, now);
    late = chosen.late;
    if (at_high) price_->runs_at(kHigh, now);
    now += steps_.step_time(shape, at_high ? kHigh : chosen.clock);
    return chosen.clock;
  }
  /// Runs `steps`, every tenth with this prompt; returns the clock of the last one without.
  MegaHertz run(int steps, std::int32_t requests, std::int64_t prompt) {
    MegaHertz clock;
    for (int i = 0; i < steps; ++i) {
      if (i % 10 == 0 && prompt > 0) (void)step(requests, prompt);
      clock = step(requests);
    }
    return clock;
  }
  void draws(double base_w, std::optional<double> idle_w = {}) {
    draw_.base_w = base_w;
    draw_.idle_w = idle_w;
    price_.emplace(kClocks, late_tokens_, spec_);
  }
  void takes_no_longer_from(int requests) { steps_.most = requests; }
  void idle(Span span) {
    price_->pause(now);
    now += span;
  }

  Instant now;
  bool late = false;
  Span waited;           ///< of prompts
  Span before;           ///< of gaps
  bool at_high = false;  ///< steps run at the high clock, whatever is chosen

 private:
  double late_tokens_;
  Steps steps_;
  Draw draw_;
  InstanceSpec spec_;
  std::optional<TimePrice> price_;
};

TEST(TimePrice, StepsRunAtTheirLeastEnergyWhereNoGapIsLate) {
  Running instance(0.001);
  EXPECT_EQ(instance.step(10), kHigh) << "nothing is known yet";
  EXPECT_EQ(instance.run(2'000, 10, 0), kLow);
  EXPECT_EQ(instance.run(2'000, 10, 300), kLow)
      << "steps of 40 ms, and at 600 MHz they take 60: the budget's to see to";
  EXPECT_FALSE(instance.late);
}

TEST(TimePrice, AnswersOfOneTokenHaveNoGapsToKeep) {
  // Prompts alone, one each half second: after a minute without a gap none is taken to be late.
  Running instance(0.005);
  const auto prompts = [&](int count) {
    MegaHertz clock;
    for (int i = 0; i < count; ++i) {
      clock = instance.step(0, 800);
      instance.idle(Span::ms(400));
    }
    return clock;
  };
  EXPECT_EQ(prompts(20), kHigh) << "gaps may come yet";
  EXPECT_EQ(prompts(280), kLow);
  EXPECT_EQ(instance.run(2'000, 10, 0), kLow) << "gaps that are in time change nothing";
}

TEST(TimePrice, AShareOfLateGapsBuysASlowdown) {
  // One step in eleven has 800 prompt tokens and takes 90 ms: 9 % of gaps are late at any clock.
  const auto clock = [](double late_tokens) { return Running(late_tokens).run(5'000, 10, 800); };
  EXPECT_EQ(clock(0.0001), kHigh);
  EXPECT_EQ(clock(0.4), kLow);
  EXPECT_EQ(clock(0.04), kMiddle) << "nearly half as many again: steps take a sixth longer, and more requests run";
}

TEST(TimePrice, StepsBeforeAPromptAreFastEnoughForItsRaise) {
  // One step in eleven has 350 prompt tokens and takes 45 ms of the 50 at the high clock, 52.5 and 67.5 at the others.
  const auto clock = [](Span delay, double late_tokens) {
    return Running(gaps(Span::ms(50)), late_tokens, 0.0, delay).run(5'000, 10, 350);
  };
  EXPECT_EQ(clock(Span(), 0.005), kLow) << "raised at once";
  EXPECT_EQ(clock(Span::ms(10), 0.005), kLow) << "48.3 ms if raised from the low clock";
  EXPECT_EQ(clock(Span::ms(23), 0.005), kMiddle) << "52.7, and 48.3 from the middle one";
  EXPECT_EQ(clock(Span::ms(40), 0.005), kHigh) << "50.7 from the middle one";
  EXPECT_EQ(clock(Span::ms(40), 0.2), kLow) << "9 % of gaps may be late";
  EXPECT_EQ(Running(gaps(Span::ms(40)), 0.2, 0.0, Span::ms(40)).run(5'000, 10, 350), kLow) << "late at any clock";
}

TEST(TimePrice, AnswersKeepTheirMeanGap) {
  // Every eleventh step takes twice as long: 10.9 ms in the mean, 12.7 at the middle clock and 16.4 at the low one.
  const auto clock = [](const Slo& slo) { return Running(slo, 0.005, 0.0).run(8'000, 10, 100); };
  EXPECT_EQ(clock(gaps({}, Span::us(11'500))), kHigh);
  EXPECT_EQ(clock(gaps({}, Span::ms(15))), kMiddle);
  EXPECT_EQ(clock(gaps({}, Span::ms(20))), kLow);
  EXPECT_EQ(clock(gaps(Span::ms(50), Span::ms(15))), kMiddle) << "no gap is late";
  EXPECT_EQ(clock(gaps({}, Span::ms(9))), kLow) << "late at any clock";
}

TEST(TimePrice, MoreOfTheGapsThatOnlyTheLongestAnswersNeedMayBeLate) {
  // For 60 of 2,000 steps each has a prompt and takes 20 ms at the high clock, 23 and 30 at the others.
  const auto clock = [](bool of_answers, std::optional<Span> itl = {}) {
    Slo slo = gaps(itl, Span::ms(25));
    slo.tbt_of_answers = of_answers;
    Running instance(slo, 0.005, 0.0);
    for (int i = 0; i < 3; ++i) {
      for (int crowd = 0; crowd < 60; ++crowd) (void)instance.step(10, 100);
      (void)instance.run(1'700, 10, 1);
    }
    return instance.run(100, 10, 1);
  };
  EXPECT_EQ(clock(false), kMiddle);
  EXPECT_EQ(clock(true), kLow);
  EXPECT_EQ(clock(true, Span::ms(24)), kMiddle) << "the stricter one is stated";
}

TEST(TimePrice, StepsAllAlikeKeepTheMeanGapAllTheTime) {
  // 10.9 ms in the mean at the high clock, 12.7 at the middle one: a minute in which both ran would be within 11.5.
  Running instance(gaps({}, Span::us(11'500)), 0.005, 0.0);
  (void)instance.run(2'000, 10, 100);
  int slower = 0;
  for (int i = 0; i < 6'000; ++i) slower += static_cast<int>(instance.step(10, i % 11 == 0 ? 100 : 0) < kHigh);
  EXPECT_EQ(slower, 0);
}

TEST(TimePrice, WhatAnAnswersOwnStepsTookIsNotTheHighestClocks) {
  Running instance(gaps({}, Span::ms(18)), 0.001, 0.0);
  instance.at_high = true;
  (void)instance.run(6'000, 10, 0);
  instance.at_high = false;
  EXPECT_EQ(instance.run(1'000, 10, 0), kLow) << "15 ms for 10 at the high clock, which were most of the last minute's";
}

TEST(TimePrice, MoreRequestsMakeASecondCostMore) {
  Running instance(0.02);
  (void)instance.run(5'000, 10, 800);
  EXPECT_EQ(instance.step(1), kLow);
  EXPECT_EQ(instance.step(200), kHigh);
  EXPECT_EQ(instance.step(1, 0, 199), kHigh) << "who waits is held up, too";
}

/// Requests of 50 tokens each at this rate for four minutes; returns how many are running at the end.
std::size_t running_at(double per_second, Running& instance, MegaHertz& clock) {
  std::vector<int> left;
  Instant next;
  while (instance.now < Instant{} + Span::s(240)) {
    for (; next <= instance.now; next += Span::from_seconds(1.0 / per_second)) left.push_back(50);
    clock = instance.step(static_cast<std::int32_t>(left.size()));
    for (int& tokens : left) --tokens;
    std::erase(left, 0);
  }
  return left.size();
}

TEST(TimePrice, NoLoadIsRunSoSlowlyThatItCouldNotBeCarried) {
  // Each request adds 0.3 ms to a step: 50 a second are three quarters of the time at the high clock, seven eighths at
  // the middle one and more than all at the low one. With 25 the low clock will do.
  MegaHertz clock;
  Running busy(0.4, 0.3);
  EXPECT_LT(running_at(50.0, busy, clock), 500U);
  Running half(0.4, 0.3);
  EXPECT_LT(running_at(25.0, half, clock), 60U);
  EXPECT_EQ(clock, kLow);
}

TEST(TimePrice, WhatNoFurtherRequestMakesLongerIsNoLoad) {
  // 60 requests a step of 40 ms at the high clock. If each adds half a millisecond, three quarters of the step grow
  // with the load. If the first 30 have added one each, as those of a mixture whose experts all have tokens, nothing
  // does.
  Running linear(gaps(Span::ms(100)), 0.4, 0.5);
  EXPECT_EQ(linear.run(5'000, 60, 0), kMiddle);
  Running full(gaps(Span::ms(100)), 0.4, 1.0);
  full.takes_no_longer_from(30);
  EXPECT_EQ(full.run(5'000, 60, 0), kLow);
}

TEST(TimePrice, WhereStepsGatherRequestsTheLeastPowerIsLeastEnergy) {
  // A static power of 500 W: a single step takes least energy at the high clock. If the load is a small part of each
  // step, the time saved by shorter steps is spent in more steps of the same kind.
  Running light(0.4);
  light.draws(500.0);
  EXPECT_EQ(light.step(10), kHigh);
  EXPECT_EQ(light.run(2'000, 10, 0), kLow);
}

TEST(TimePrice, WhatARequestAloneTakesIsWeighedAgainstAnIdleGpu) {
  // A static draw of 500 W while it runs and 50 W idle: over idle power a step takes least at the middle clock.
  Running alone(0.4);
  alone.draws(500.0, 50.0);
  MegaHertz clock;
  for (int i = 0; i < 100; ++i) {
    clock = alone.run(100, 1, 0);
    alone.idle(Span::s(1));
  }
  EXPECT_EQ(clock, kMiddle) << "half of the time idle";
  EXPECT_EQ(alone.run(20'000, 1, 0), kMiddle) << "never idle, but nobody shares its steps";
  EXPECT_EQ(alone.run(20'000, 2, 0), kLow) << "with others there the steps come anyway";
}

TEST(TimePrice, WhereNoStepCanBeFullerNoGapCanBeLonger) {
  // Bursts of steps of 20 ms at the high clock and 30 at the low one, among others of 10 and 15. By its mean a burst
  // would be late at the low clock, where arriving prompts make more steps longer; if the engine computes no more
  // tokens per step, no step takes more than 30 ms.
  const auto low_steps = [](bool full) {
    Running running(gaps({}, Span::ms(31)), 0.005, 0.0);
    int low = 0;
    for (int burst = 0; burst < 60; ++burst) {
      const bool counts = burst >= 40;
      for (int i = 0; i < 100; ++i) low += static_cast<int>(running.step(10, 100, 0, full) == kLow && counts);
      for (int i = 0; i < 100; ++i) low += static_cast<int>(running.step(10) == kLow && counts);
    }
    return low;
  };
  EXPECT_LT(low_steps(false), 3'000);
  EXPECT_EQ(low_steps(true), 4'000);
}

TEST(TimePrice, WhoWaitsForAFirstTokenWaitsLongerWhereStepsAre) {
  // Prompts have waited 120 ms at the high clock when their step of 20 ms begins.
  const auto clock = [](std::int64_t ttft_ms) {
    Slo slo = gaps({}, Span::ms(100));
    slo.ttft = Span::ms(ttft_ms);
    Running running(slo, 0.005, 0.0);
    running.at_high = true;
    running.waited = Span::ms(120);
    return running.run(4'000, 10, 100);
  };
  EXPECT_EQ(clock(400), kLow);
  EXPECT_EQ(clock(170), kMiddle) << "a quarter longer may they wait: 1.17 times is within, 1.5 is not";
  EXPECT_EQ(clock(145), kHigh);
}

TEST(TimePrice, MoreFirstTokensMayBeLateForWhatIsOnlyAShareOfAWholeAnswer) {
  // One prompt in 40 has waited 120 ms.
  const auto clock = [](bool of_answers) {
    Slo slo = gaps({}, Span::ms(100));
    slo.ttft = Span::ms(145);
    slo.ttft_of_answers = of_answers;
    Running running(slo, 0.005, 0.0);
    running.at_high = true;
    MegaHertz last;
    for (int i = 0; i < 600; ++i) {
      running.waited = i % 40 == 0 ? Span::ms(120) : Span::ms(20);
      last = running.run(10, 10, 100);
    }
    return last;
  };
  EXPECT_EQ(clock(false), kHigh);
  EXPECT_EQ(clock(true), kLow);
}

TEST(TimePrice, TenTimesAsMuchMayBeLateForWholeAnswers) {
  EXPECT_EQ(late_share(0.005, false), 0.005);
  EXPECT_EQ(late_share(0.005, true), 0.05);
  EXPECT_EQ(late_share(0.04, true), 0.1);
  EXPECT_EQ(late_share(0.3, true), 0.3);
}

TEST(TimePrice, StepsWithPromptsAreHeldToTheMeanGapAsSoonAsGapsAreAsLong) {
  Running running(gaps({}, Span::ms(30)), 0.01, 0.1);
  running.run(2'000, 4, 0);
  running.step(4, 100);
  EXPECT_TRUE(running.late) << "the mean is far below: such a step may take its time";
  int steps = 0;
  for (running.late = true; running.late && steps < 1'000; ++steps) running.step(60, 100);  // 26 ms at the high clock
  EXPECT_LT(steps, 300);
  running.run(2'000, 4, 0);
  running.step(4, 100);
  EXPECT_TRUE(running.late);
}

TEST(TimePrice, WhatIsLateIsSaid) {
  Running instance(0.01);
  (void)instance.step(10, 400);
  EXPECT_FALSE(instance.late) << "50 ms";
  (void)instance.step(10, 401);
  EXPECT_TRUE(instance.late);
  instance.before = Span::ms(41);
  (void)instance.step(10);
  EXPECT_TRUE(instance.late) << "of the 50 ms, 41 have passed";
  instance.before = Span();
  (void)instance.step(0, 5'000);
  EXPECT_TRUE(instance.late) << "those who decode wait for prompts that are computed alone";
  instance.idle(Span::ms(1));
  (void)instance.step(0, 5'000);
  EXPECT_FALSE(instance.late) << "nobody decodes";
}

RC_GTEST_PROP(TimePriceProperty, FewerLateGapsOrMoreRequestsNeverMeanALowerClock, (std::uint64_t seed)) {
  RandomStream random(seed, "time-price");
  const double share = 0.0005 * static_cast<double>(1 + random.below(60));
  const auto prompt = static_cast<std::int64_t>(random.below(1'500));
  const auto requests = static_cast<std::int32_t>(1 + random.below(60));
  Running strict(share);
  Running loose(2.0 * share);
  strict.at_high = loose.at_high = true;  // both learn from the same steps
  (void)strict.run(2'000, requests, prompt);
  (void)loose.run(2'000, requests, prompt);
  const auto any = static_cast<std::int32_t>(1 + random.below(200));
  const MegaHertz at = strict.step(any);
  RC_ASSERT(at >= loose.step(any));
  RC_ASSERT(strict.step(any + 1 + static_cast<std::int32_t>(random.below(50))) >= at);
}

}  // namespace
}  // namespace wattle::policy
