#include "control/throttle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "policy/frequency/eco_freq.h"
#include "predict/linear_latency.h"

namespace wattle::control::throttle_test {
namespace {

class Journal final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& record) override { decisions.push_back(record); }
  std::vector<journal::DecisionRecord> decisions;
};

class Clocks final : public ClockPort {
 public:
  void command(InstanceId, MegaHertz clock, Instant) override { commands.push_back(clock.value()); }
  std::vector<std::int32_t> commands;
};

/// Returns `next` and records the views it is given.
class Scripted final : public policy::FrequencyPolicy {
 public:
  ClockDecision choose(const InstanceView& view, Instant) override {
    seen.push_back(view);
    return next;
  }
  std::vector<InstanceView> seen;
  ClockDecision next{MegaHertz{1005}, "scripted", Hold{1'000, Instant{500}}};
};

class ThrottleTest : public ::testing::Test {
 protected:
  Throttle make(Mode mode) {
    auto owned = std::make_unique<Scripted>();
    policy = owned.get();
    return Throttle(InstanceView{}, std::move(owned), mode, clocks, journal);
  }
  static StepReport decoding(std::int32_t requests, std::int64_t kv) {
    StepReport report;
    report.shape.decode_requests = requests;
    report.shape.decode_kv_tokens = kv;
    return report;
  }
  [[nodiscard]] std::size_t asked() const { return policy->seen.size(); }
  /// For an instance with three clocks and no policy.
  Throttle with_three_clocks(std::int32_t commanded_mhz) {
    three.clocks = {MegaHertz(1005), MegaHertz(1200), MegaHertz(1410)};
    InstanceView view;
    view.spec = &three;
    view.clock_commanded = MegaHertz(commanded_mhz);
    return Throttle(view, nullptr, Mode::Enforce, clocks, journal);
  }

  Journal journal;
  Clocks clocks;
  Scripted* policy = nullptr;
  InstanceSpec three;
};

TEST_F(ThrottleTest, AsksAgainOnlyWhereTheHoldEnds) {
  auto throttle = make(Mode::Enforce);
  const Hold hold = throttle.step(decoding(4, 900), Instant{0});
  EXPECT_EQ(hold.kv_tokens_max, 1'000);
  EXPECT_EQ(hold.until, Instant{500});
  throttle.step(decoding(4, 1'000), Instant{499});
  EXPECT_EQ(asked(), 1U);
  throttle.step(decoding(4, 1'001), Instant{499});
  EXPECT_EQ(asked(), 2U) << "more KV tokens than it was good for";
  throttle.step(decoding(4, 1'000), Instant{499});
  EXPECT_EQ(asked(), 3U) << "fewer than it was asked for";
  throttle.step(decoding(4, 1'000), Instant{500});
  EXPECT_EQ(asked(), 4U) << "its time is over";
}

TEST_F(ThrottleTest, APlansRangeClampsEveryDecisionAndMovesTheClockThatIsSet) {
  auto throttle = make(Mode::Enforce);
  throttle.step(decoding(4, 900), Instant{0});
  throttle.bound(ClockRange{PoolId(0), MegaHertz(1200), MegaHertz(1410)}, Instant{10});
  EXPECT_EQ(clocks.commands, (std::vector{1005, 1200})) << "at once";
  EXPECT_STREQ(journal.decisions.back().reason, "the plan's lowest clock");
  policy->next.clock = MegaHertz(1980);
  throttle.step(decoding(4, 900), Instant{20});
  EXPECT_EQ(asked(), 2U) << "the hold went with the range";
  EXPECT_EQ(clocks.commands, (std::vector{1005, 1200, 1410}));
  EXPECT_STREQ(journal.decisions.back().reason, "the plan's highest clock");
  throttle.bound(std::nullopt, Instant{30});
  throttle.step(decoding(4, 900), Instant{40});
  EXPECT_EQ(clocks.commands.back(), 1980);
}

TEST_F(ThrottleTest, APlansRangeFindsAClockThatCanBeLockedAndBindsWithoutAPolicy) {
  Throttle throttle = with_three_clocks(1410);
  throttle.bound(ClockRange{PoolId(0), MegaHertz(1005), MegaHertz(1300)}, Instant{10});
  EXPECT_EQ(clocks.commands, (std::vector{1200}));
}

TEST_F(ThrottleTest, OfARangeThatHoldsNoClockTheNearestOneIsLocked) {
  Throttle throttle = with_three_clocks(1200);
  throttle.bound(ClockRange{PoolId(0), MegaHertz(1), MegaHertz(2)}, Instant{10});
  EXPECT_EQ(throttle.view().clock_commanded, MegaHertz(1005)) << "what is locked is what is shown";
  throttle.bound(ClockRange{PoolId(0), MegaHertz(5000), MegaHertz(6000)}, Instant{20});
  EXPECT_EQ(clocks.commands, (std::vector{1005, 1410}));
}

TEST_F(ThrottleTest, AsksWhenTheBatchOrTheQueueChanges) {
  auto throttle = make(Mode::Enforce);
  throttle.step(decoding(4, 900), Instant{0});
  throttle.step(decoding(5, 901), Instant{1});
  EXPECT_EQ(asked(), 2U) << "another batch size";
  auto report = decoding(5, 902);
  report.waiting_requests = 1;
  throttle.step(report, Instant{2});
  EXPECT_EQ(asked(), 3U) << "someone waits";
  report.waiting_prompt_tokens = 50;
  throttle.step(report, Instant{3});
  EXPECT_EQ(asked(), 4U) << "someone else waits";
  report.shape.prefill_tokens = 10;
  throttle.step(report, Instant{4});
  throttle.step(report, Instant{5});
  EXPECT_EQ(asked(), 6U) << "prompts make every step another batch";
}

TEST_F(ThrottleTest, IdleAndLostAreShownAndEndTheHold) {
  auto throttle = make(Mode::Enforce);
  auto report = decoding(4, 900);
  report.waiting_requests = 2;
  report.waiting_prompt_tokens = 70;
  throttle.step(report, Instant{0});
  throttle.lost(Instant{10});
  ASSERT_EQ(asked(), 2U);
  EXPECT_EQ(policy->seen[1].telemetry, Telemetry::Lost);
  EXPECT_EQ(policy->seen[1].step.shape.decode_requests, 4) << "what was last known";
  throttle.step(report, Instant{20});
  ASSERT_EQ(asked(), 3U) << "reports are back";
  EXPECT_EQ(policy->seen[2].telemetry, Telemetry::Fresh);
  throttle.idle(Instant{30});
  ASSERT_EQ(asked(), 4U);
  EXPECT_EQ(policy->seen[3].telemetry, Telemetry::Idle);
  EXPECT_TRUE(policy->seen[3].step.shape.idle());
  EXPECT_EQ(policy->seen[3].step.waiting_requests, 0);
  EXPECT_EQ(policy->seen[3].step.waiting_prompt_tokens, 0);
  throttle.step(report, Instant{40});
  EXPECT_EQ(asked(), 5U);
}

TEST_F(ThrottleTest, CommandsAndJournalsChangesOnly) {
  auto throttle = make(Mode::Enforce);
  policy->next.hold = Hold{};
  for (const int mhz : {1005, 1005, 1410, 1410, 1005}) {
    policy->next.clock = MegaHertz{mhz};
    throttle.step(decoding(4, 900), Instant{0});
  }
  EXPECT_EQ(clocks.commands, (std::vector<std::int32_t>{1005, 1410, 1005}));
  ASSERT_EQ(journal.decisions.size(), 3U);
  EXPECT_EQ(journal.decisions[1].value, 1410);
  EXPECT_EQ(journal.decisions[1].kind, journal::DecisionKind::Clock);
  EXPECT_EQ(throttle.view().clock_commanded, MegaHertz{1005});
}

TEST_F(ThrottleTest, ShadowJournalsButDoesNotCommand) {
  auto throttle = make(Mode::Shadow);
  throttle.step(decoding(4, 900), Instant{0});
  throttle.idle(Instant{1});
  EXPECT_EQ(asked(), 2U);
  EXPECT_TRUE(clocks.commands.empty());
  ASSERT_EQ(journal.decisions.size(), 1U);
  EXPECT_EQ(journal.decisions[0].mode, Mode::Shadow);
  EXPECT_EQ(throttle.view().clock_commanded, MegaHertz{0});
}

TEST_F(ThrottleTest, OffNeitherAsksNorCommands) {
  auto throttle = make(Mode::Off);
  const Hold hold = throttle.step(decoding(4, 900), Instant{0});
  EXPECT_TRUE(hold.covers(1'000'000'000'000, Instant{1'000'000'000}));
  throttle.lost(Instant{1});
  EXPECT_EQ(asked(), 0U);
  EXPECT_TRUE(clocks.commands.empty());
  EXPECT_TRUE(journal.decisions.empty());
  EXPECT_EQ(throttle.view().telemetry, Telemetry::Lost) << "it watches all the same";
}

/// A driver that skips every step covered by a hold commands the same clocks at the same steps as one that reports all.
TEST(ThrottleWithEcoFreq, SkippedStepsDoNotChangeTheCommands) {
  predict::LinearCoefficients c;
  c.tile_ends = {128, 256};
  for (const int mhz : {1005, 1200, 1410}) {
    const double slower = 1410.0 / mhz;
    c.clocks.push_back({MegaHertz{mhz},
                        {6e4 * slower, 5e6},
                        {{2e4 * slower, 60.0 * slower, 1.0e7 * slower},
                         {2e4 * slower, 60.0 * slower, 1.3e7 * slower},
                         {2e4 * slower, 60.0 * slower, 1.6e7 * slower}}});
  }
  const auto model = predict::LinearLatency::make(std::move(c));
  ASSERT_TRUE(model);
  policy::EcoFreqOptions options;
  options.clocks = {MegaHertz{1005}, MegaHertz{1200}, MegaHertz{1410}};
  InstanceSpec spec;
  spec.slo.ttft = Span::ms(600);
  spec.slo.itl = Span::ms(60);
  spec.beliefs.latency = &*model;
  InstanceView view;
  view.spec = &spec;

  struct Commands final : ClockPort {
    void command(InstanceId, MegaHertz clock, Instant now) override { made.emplace_back(now, clock); }
    std::vector<std::pair<Instant, MegaHertz>> made;
  };
  const auto drive = [&](bool skip, int& reports) {
    Commands port;
    journal::Sink sink;
    Throttle throttle(view, std::make_unique<policy::EcoFreq>(options, spec), Mode::Enforce, port, sink);
    Instant now;
    for (const auto& [requests, kv, steps] : {std::tuple(100, 300'000, 2'000),
                                              {140, 500'000, 3'000},
                                              {260, 10'000, 9},
                                              {90, 380'000, 1'500},
                                              {90, 100'000, 700},
                                              {300, 520'000, 400}}) {
      Hold hold;
      StepReport report;
      report.shape.decode_requests = requests;
      report.shape.decode_kv_tokens = kv;
      for (int step = 0; step < steps; ++step, now += Span::ms(20)) {
        report.start = now;
        if (!skip || step == 0 || !hold.covers(report.shape.decode_kv_tokens, now)) {
          hold = throttle.step(report, now);
          ++reports;
        }
        report.shape.decode_kv_tokens += requests;
      }
      now += Span::ms(3);
    }
    return port.made;
  };
  int all = 0;
  int some = 0;
  const auto expected = drive(false, all);
  EXPECT_EQ(drive(true, some), expected);
  EXPECT_GE(expected.size(), 5U) << "the trajectory must make it change its mind";
  EXPECT_LT(some * 100, all);
}

/// As long as the clock is low: 1,410 ms / MHz, 10 ms at 1410.
class Slow final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape&, MegaHertz clock) const override {
    return Span::us(14'100'000 / std::max(1, clock.value()));
  }
};

/// An instance under EcoFreq.
struct Eco {
  explicit Eco(const LatencyModel* latency) {
    spec.slo.itl = Span::ms(50);
    spec.beliefs.latency = latency;
    view.spec = &spec;
  }
  [[nodiscard]] std::unique_ptr<policy::EcoFreq> policy() const {
    policy::EcoFreqOptions o;
    o.clocks = {MegaHertz{705}, MegaHertz{1410}};
    return std::make_unique<policy::EcoFreq>(o, spec);
  }
  InstanceSpec spec;
  InstanceView view;
};

TEST_F(ThrottleTest, AnOverrunRaisesTheClockAtOnceAndForTheDwell) {
  const Slow latency;
  const Eco eco(&latency);
  Throttle throttle(eco.view, eco.policy(), Mode::Enforce, clocks, journal, Span::ms(5));
  throttle.step(decoding(4, 900), Instant{});
  ASSERT_EQ(clocks.commands, std::vector<std::int32_t>{705});
  const StepShape shape = decoding(4, 900).shape;
  EXPECT_EQ(throttle.allowed(shape, MegaHertz{705}), Span::ms(25));
  EXPECT_EQ(throttle.allowed(shape, MegaHertz{1410}), Span::ms(25)) << "the lower clock is on its way";
  EXPECT_EQ(throttle.allowed(StepShape{}, MegaHertz{705}), Span::max());
  EXPECT_TRUE(throttle.overrun(Instant() + Span::ms(25)));
  EXPECT_EQ(clocks.commands.back(), 1410);
  EXPECT_STREQ(journal.decisions.back().reason, "step overran its prediction: maximum");
  EXPECT_FALSE(throttle.overrun(Instant() + Span::ms(30))) << "it is there already";
  EXPECT_EQ(throttle.overruns(), 2);
  EXPECT_EQ(throttle.allowed(shape, MegaHertz{705}), Span::ms(25)) << "the higher clock is not in effect yet";
  throttle.step(decoding(4, 904), Instant() + Span::ms(31));
  EXPECT_EQ(throttle.view().clock_commanded, MegaHertz{1410}) << "the prediction is no better than a moment ago";
  throttle.step(decoding(4, 908), Instant() + Span::ms(231));
  EXPECT_EQ(throttle.view().clock_commanded, MegaHertz{705});
}

TEST_F(ThrottleTest, WithoutSlackOrBeliefNothingOverruns) {
  const Slow latency;
  const Eco eco(&latency);
  Throttle unwatched(eco.view, eco.policy(), Mode::Enforce, clocks, journal);
  EXPECT_EQ(unwatched.allowed(decoding(1, 1).shape, MegaHertz{705}), Span::max());
  const Eco without(nullptr);
  Throttle blind(without.view, without.policy(), Mode::Enforce, clocks, journal, Span::ms(5));
  EXPECT_EQ(blind.allowed(decoding(1, 1).shape, MegaHertz{705}), Span::max());
  blind.step(decoding(1, 1), Instant{});
  EXPECT_EQ(clocks.commands.back(), 1410);
  EXPECT_EQ(blind.disbelieved(), 1);
}

TEST_F(ThrottleTest, APolicyThatWantsStepsHasThemAll) {
  class Hearing final : public policy::FrequencyPolicy {
   public:
    [[nodiscard]] EventKinds observes() const override { return EventKinds::of<event::Step>(); }
    void observe(const Event& event, Instant) override {
      kv.push_back(std::get<event::Step>(event).instance.step.shape.decode_kv_tokens);
    }
    ClockDecision choose(const InstanceView&, Instant) override {
      ++asked;
      return {MegaHertz{1005}, "", Hold::forever()};
    }
    std::vector<std::int64_t> kv;
    int asked = 0;
  };
  const auto hearing = std::make_shared<Hearing>();
  Throttle throttle(InstanceView{}, hearing, Mode::Enforce, clocks, journal);
  throttle.step(decoding(4, 900), Instant{0});
  throttle.step(decoding(4, 904), Instant{1});
  EXPECT_EQ(hearing->kv, (std::vector<std::int64_t>{900, 904}));
  EXPECT_EQ(hearing->asked, 2) << "it holds nothing";
}

TEST_F(ThrottleTest, ReportsSayHowManyTokensAStepGives) {
  auto throttle = make(Mode::Enforce);
  throttle.step(decoding(10, 100), Instant{1});
  EXPECT_EQ(throttle.view().tokens_per_step, 1.0) << "nobody has said";
  const auto given = [&](std::int32_t requests, std::int64_t tokens) {
    StepReport report = decoding(10, 100);
    report.yield = {requests, tokens};
    throttle.step(report, Instant{2});
    return throttle.view().tokens_per_step;
  };
  EXPECT_DOUBLE_EQ(given(10, 30), 3.0);
  EXPECT_NEAR(given(30, 30), 1.5, 0.02) << "by request, not by step";
  for (int i = 0; i < 2'000; ++i) given(10, 20);
  EXPECT_NEAR(given(10, 20), 2.0, 1e-3) << "what was before is forgotten";
  throttle.step(decoding(10, 100), Instant{3});
  EXPECT_NEAR(throttle.view().tokens_per_step, 2.0, 1e-3) << "nothing said, nothing learnt";
}

TEST_F(ThrottleTest, OtherObjectivesVoidTheHoldAndOutliveAPolicy) {
  class Hearing final : public policy::FrequencyPolicy {
   public:
    ClockDecision choose(const InstanceView&, Instant) override { return {MegaHertz{1005}, "", Hold::forever()}; }
    void held_to(const InstanceView&, const Slo& slo) override { tbt = slo.tbt; }
    std::optional<Span> tbt;
  };
  Slo slo;
  slo.tbt = Span::ms(200);
  const auto first = std::make_shared<Hearing>();
  Throttle throttle(InstanceView{}, first, Mode::Shadow, clocks, journal);
  throttle.step(decoding(4, 900), Instant{0});
  throttle.step(decoding(4, 904), Instant{1});
  EXPECT_FALSE(throttle.asked());
  throttle.held_to(slo);
  EXPECT_EQ(first->tbt, Span::ms(200));
  throttle.step(decoding(4, 908), Instant{2});
  EXPECT_TRUE(throttle.asked());
  const auto second = std::make_shared<Hearing>();
  throttle.become(kUnknownInstance, second);
  EXPECT_EQ(second->tbt, Span::ms(200));
  Throttle off(InstanceView{}, second, Mode::Off, clocks, journal);
  off.held_to({});
  EXPECT_EQ(second->tbt, Span::ms(200)) << "nobody asks it";
}

TEST_F(ThrottleTest, ChangedBeliefsVoidTheHold) {
  auto throttle = make(Mode::Enforce);
  throttle.step(decoding(4, 900), Instant{0});
  EXPECT_TRUE(throttle.asked());
  throttle.step(decoding(4, 904), Instant{1});
  EXPECT_FALSE(throttle.asked());
  throttle.forget_hold();
  throttle.step(decoding(4, 908), Instant{2});
  EXPECT_TRUE(throttle.asked());
}

}  // namespace
}  // namespace wattle::control::throttle_test
