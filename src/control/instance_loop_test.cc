#include "control/instance_loop.h"

#include <gtest/gtest.h>

#include <utility>

#include "control/instance_rig_test.h"
#include "policy/frequency/eco_freq.h"

namespace wattle::control::instance_rig {
namespace {

TEST(InstanceLoop, CommandsFollowReports) {
  Rig rig;
  rig.report(4, 1, 3, 10);
  rig.report(4, 2, 3, 20);
  rig.report(7, 1, 1, 21, 2);
  rig.report(4, 3, 0, 30);
  const std::vector<Port::Command> expected = {{4, 1005, 10'000'000}, {4, 210, 30'000'000}};
  EXPECT_EQ(rig.port.commands, expected) << "instance 7 stays where it was commanded before: no command";
}

TEST(InstanceLoop, LostAndIdleAreDifferent) {
  Rig rig;
  rig.report(4, 1, 3, 0);
  rig.report(7, 1, 0, 0);
  EXPECT_EQ(rig.core.next_tick(), Instant() + Span::s(2));
  rig.core.tick(Instant() + Span::ms(1999));
  EXPECT_EQ(rig.core.counts(0).losses, 0);
  rig.core.tick(Instant() + Span::s(2));
  rig.core.tick(Instant() + Span::s(9));
  EXPECT_EQ(rig.core.counts(0).losses, 1);
  EXPECT_EQ(rig.core.counts(1).losses, 0) << "silence of an idle engine is no loss";
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 1410, 2'000'000'000}));
  EXPECT_EQ(rig.core.next_tick(), Instant::never());
  rig.report(4, 2, 3, 10'000);
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 1005, 10'000'000'000})) << "and a report ends it";
}

TEST(InstanceLoop, WhatIsSeenOfAnIdleInstanceIsItsReport) {
  Rig rig;
  rig.report(4, 1, 3, 10);
  rig.report(4, 9, 0, 30);  // the reports in between were skipped
  EXPECT_TRUE(rig.core.view(0).step.shape.idle());
  EXPECT_EQ(rig.core.view(0).step.sequence, 9);
  EXPECT_EQ(rig.core.view(0).step.start, Instant() + Span::ms(30));
}

TEST(InstanceLoop, ALongStepIsNoSilence) {
  struct Slow final : LatencyModel {
    Span step_time(const StepShape& shape, MegaHertz) const override { return Span::ms(100) * shape.decode_requests; }
  } slow;
  InstanceSpec spec;
  spec.beliefs.latency = &slow;
  Port port;
  journal::Sink sink;
  InstanceLoop core({Span::s(2)}, port, sink);
  LoopInstance i;
  i.view.id = InstanceId(4);
  i.view.spec = &spec;
  i.view.clock_commanded = MegaHertz(1005);
  i.policy = std::make_unique<Scripted>();
  core.add(std::move(i));
  StepReport step;
  step.instance = InstanceId(4);
  step.sequence = 1;
  step.shape.decode_requests = 30;  // 3 s
  core.report(step, Instant());
  core.tick(Instant() + Span::s(2));
  EXPECT_EQ(core.counts(0).losses, 0) << "it should last that long";
  EXPECT_EQ(core.next_tick(), Instant() + Span::s(5));
  EXPECT_EQ(core.lost_at(0, Instant()), Instant() + Span::s(5)) << "the simulator's rule is the same";
  core.tick(Instant() + Span::ms(4999));
  EXPECT_EQ(core.counts(0).losses, 0);
  core.tick(Instant() + Span::s(5));
  EXPECT_EQ(core.counts(0).losses, 1) << "2 s longer than it should";
  EXPECT_EQ(port.commands.back(), (Port::Command{4, 1410, 5'000'000'000}));
  step.sequence = 2;
  core.report(step, Instant() + Span::s(6));
  core.tick(Instant() + Span::s(8));
  EXPECT_EQ(core.counts(0).losses, 1) << "the next step has its own time";
}

TEST(InstanceLoop, AnEngineWithoutReportsGetsTheClockOfLostTelemetryOnce) {
  Rig rig;
  rig.core.tick(Instant() + Span::s(100));
  EXPECT_EQ(rig.core.next_tick(), Instant() + Span::s(110)) << "it has that long to say something";
  rig.report(7, 1, 0, 105'000);
  rig.core.tick(Instant() + Span::ms(109'999));
  EXPECT_EQ(rig.core.counts(0).silent, 0);
  rig.core.tick(Instant() + Span::s(110));
  rig.core.tick(Instant() + Span::s(300));
  EXPECT_EQ(rig.core.counts(0).silent, 1);
  EXPECT_EQ(rig.core.counts(1).silent, 0) << "an idle engine that was heard keeps the idle clock";
  EXPECT_EQ(rig.core.counts(0).losses, 0) << "nothing was lost: there was nothing";
  EXPECT_EQ(rig.core.view(0).telemetry, Telemetry::Lost);
  EXPECT_EQ(rig.core.next_tick(), Instant::never());
  rig.report(4, 1, 3, 301'000);
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{4, 1005, 301'000'000'000})) << "and a report ends it";
}

TEST(InstanceLoop, AnInstanceThatIsDecidedElsewhereIsNotSilent) {
  Port port;
  journal::Sink sink;
  LoopInstance leased;
  leased.view.id = InstanceId(1);
  leased.mode = Mode::Off;
  InstanceLoop core({}, port, sink);
  core.add(std::move(leased));
  core.tick(Instant() + Span::s(1));
  core.tick(Instant() + Span::s(60));
  EXPECT_EQ(core.counts(0).silent, 0);
  EXPECT_TRUE(port.commands.empty());
}

TEST(InstanceLoop, QueuedWorkWithoutAStepCountsAsInFlight) {
  Rig rig;
  rig.report(4, 1, 0, 0, 5);
  rig.core.tick(Instant() + Span::s(2));
  EXPECT_EQ(rig.core.counts(0).losses, 1);
}

TEST(InstanceLoop, GapsDuplicatesStragglersAndRestartsAreDistinguished) {
  Rig rig;
  for (const std::int64_t sequence : {100, 101, 105, 105, 103, 106}) rig.report(4, sequence, 1, sequence);
  auto c = rig.core.counts(0);
  EXPECT_EQ(c.accepted, 4);
  EXPECT_EQ(c.missed, 3);
  EXPECT_EQ(c.duplicates, 1);
  EXPECT_EQ(c.late, 1);
  EXPECT_EQ(c.restarts, 0);
  rig.report(4, 0, 1, 200);
  rig.report(4, 1, 1, 201);
  c = rig.core.counts(0);
  EXPECT_EQ(c.restarts, 1);
  EXPECT_EQ(c.accepted, 6);
  EXPECT_EQ(c.missed, 3);
  rig.report(5, 1, 1, 300);
  EXPECT_EQ(rig.core.unknown_instance(), 1);
}

/// 20 ms for any step.
class Constant final : public LatencyModel {
 public:
  explicit Constant(Span time) : time_(time) {}
  [[nodiscard]] Span step_time(const StepShape&, MegaHertz) const override { return time_; }

 private:
  Span time_;
};

struct EcoRig {
  explicit EcoRig(const LatencyModel* latency, predict::OnlineLatency* learner = nullptr) : core({}, port, sink) {
    policy::EcoFreqOptions o;
    o.clocks = {MegaHertz{1005}, MegaHertz{1410}};
    InstanceSpec spec;
    spec.slo.itl = Span::ms(60);
    spec.beliefs.latency = latency;
    LoopInstance i;
    i.spec = std::make_shared<const InstanceSpec>(spec);
    i.view.spec = i.spec.get();
    i.view.id = InstanceId(1);
    i.policy = std::make_unique<policy::EcoFreq>(o, spec);
    i.overrun_slack = Span::ms(5);
    i.learner = learner;
    core.add(std::move(i));
  }
  void report(std::int64_t sequence, std::int64_t at_ms, int decoding = 3) {
    StepReport r;
    r.instance = InstanceId(1);
    r.sequence = sequence;
    r.start = Instant() + Span::ms(at_ms);
    r.shape.decode_requests = decoding;
    r.shape.decode_kv_tokens = decoding * sequence;
    core.report(r, r.start);
  }
  Port port;
  journal::Sink sink;
  InstanceLoop core;
};

TEST(InstanceLoop, AStepThatOverrunsRaisesTheClockAtOnce) {
  const Constant latency(Span::ms(20));
  EcoRig rig(&latency);
  rig.report(1, 0);
  rig.report(2, 200);  // the clock change has taken effect
  ASSERT_EQ(rig.port.commands.back(), (Port::Command{1, 1005, 0}));
  EXPECT_EQ(rig.core.next_tick(), Instant() + Span::ms(225));
  rig.core.tick(Instant() + Span::ms(224));
  EXPECT_EQ(rig.core.overruns(0), 0);
  rig.core.tick(Instant() + Span::ms(225));
  EXPECT_EQ(rig.core.overruns(0), 1);
  EXPECT_EQ(rig.port.commands.back(), (Port::Command{1, 1410, 225'000'000}));
  rig.core.tick(Instant() + Span::ms(300));
  EXPECT_EQ(rig.core.overruns(0), 1) << "once a step";
  rig.report(3, 301, 0);
  EXPECT_EQ(rig.core.next_tick(), Instant::never()) << "an idle engine overruns nothing";
}

// Steps of 20 ms by the belief, of 30 ms in truth.
TEST(InstanceLoop, MeasuresHowMuchSlowerAnInstanceIsThanBelieved) {
  const Constant latency(Span::ms(20));
  EcoRig rig(&latency);
  std::int64_t at = 0;
  std::int64_t sequence = 0;
  const auto run = [&](int steps, std::int64_t each_ms) {
    for (int n = 0; n < steps; ++n) {
      ++sequence;
      rig.report(sequence, at += each_ms, 3 + static_cast<int>(sequence % 2));
    }
    return rig.core.pace(0).slowed(Instant() + Span::ms(at));
  };
  EXPECT_EQ(run(3, 20), 1.0) << "the clock is changing";
  EXPECT_EQ(run(100, 20), 1.0);
  EXPECT_NEAR(run(300, 24), 1.2, 0.01);  // 4 ms over: no overrun
  EXPECT_EQ(rig.core.pace(0).slowed(Instant() + Span::ms(at) + Span::s(60)), 1.0) << "long ago";
  EXPECT_NEAR(run(300, 20), 1.0, 0.01) << "and again as it was";
  EXPECT_EQ(rig.core.overruns(0), 0);
}

TEST(InstanceLoop, ALimitOfTheClockIsNotForgottenAtLowerClocks) {
  Pace pace;
  const auto measured = [&](double times, int mhz, double at_s) {
    for (int n = 0; n < 50; ++n) pace.measured(times, MegaHertz(mhz), Instant() + Span::from_seconds(at_s));
    return pace.slowed(Instant() + Span::from_seconds(at_s));
  };
  EXPECT_NEAR(measured(1.5, 1410, 0), 1.5, 0.01);
  EXPECT_NEAR(measured(1.0, 1005, 10), 1.5, 0.01) << "below the limit nothing is slow";
  EXPECT_NEAR(measured(1.8, 1005, 20), 1.8, 0.01) << "slower still";
  EXPECT_NEAR(measured(1.0, 1005, 30), 1.0, 0.01) << "at the clock of the newest";
  EXPECT_NEAR(measured(1.5, 1410, 40), 1.5, 0.01);
  EXPECT_NEAR(measured(1.0, 1410, 41), 1.0, 0.01) << "cool again";
  EXPECT_NEAR(measured(1.5, 1410, 42), 1.5, 0.01);
  EXPECT_EQ(measured(1.0, 1005, 103), 1.0) << "long ago";
}

TEST(InstanceLoop, ServedStepsReachTheLearnerAndDisorderDoesNot) {
  predict::OnlineLatency learner(
      std::make_shared<const Constant>(Span::ms(20)),
      [](std::span<const predict::StepSample>) -> Result<std::shared_ptr<const LatencyModel>> {
        return std::make_shared<const Constant>(Span::ms(30));
      },
      {.refit_every = 5, .ring = 100, .window = 4});
  EcoRig rig(&learner, &learner);
  std::int64_t at = 0;
  rig.report(1, at);  // commands a clock
  for (std::int64_t sequence = 2; sequence <= 12; ++sequence)
    rig.report(sequence, at += 30, 3 + static_cast<int>(sequence));
  // The first steps fall into the 100 ms in which the clock may still change.
  EXPECT_EQ(learner.counts().samples, 7);
  EXPECT_NEAR(learner.newest(false).offline_ms, 10.0, 1e-9);
  rig.report(14, at += 30);  // 13 was lost, so the duration of 12 is unknown
  rig.report(14, at += 30);  // twice
  rig.report(13, at += 30);  // late
  EXPECT_EQ(learner.counts().samples, 7);
  EXPECT_EQ(learner.counts().ignored, 0);
  rig.report(15, at += 30);
  EXPECT_EQ(learner.counts().samples, 8) << "from 14 to 15, whatever came between";
  ASSERT_EQ(rig.core.learners().size(), 1U);
  ASSERT_EQ(rig.port.refits, 1) << "one at a time";
  EXPECT_EQ(rig.port.asked_again, 0);
  rig.core.refitted(learner, rig.port.model, Instant() + Span::ms(at));
  EXPECT_EQ(rig.port.asked_again, 1);
  EXPECT_EQ(learner.step_time({}, MegaHertz{1005}), Span::ms(30));
}

/// EcoRig with reports of ended steps.
struct EndedRig : EcoRig {
  using EcoRig::EcoRig;
  void ended(std::int64_t sequence, std::int64_t at_ms, int decoding, int waiting = 0) {
    StepReport r;
    r.moment = StepMoment::Ended;
    r.instance = InstanceId(1);
    r.sequence = sequence;
    r.start = Instant() + Span::ms(at_ms);
    r.shape.decode_requests = decoding;
    r.shape.decode_kv_tokens = 100 * decoding;
    r.waiting_requests = waiting;
    r.waiting_prompt_tokens = 50 * waiting;
    core.report(r, r.start);
  }
  bool work(std::int64_t at_ms, int requests, int prompts) {
    return core.work(0, {requests, 100 * requests, prompts, 100 * prompts, Instant() + Span::ms(at_ms)},
                     Instant() + Span::ms(at_ms));
  }
};

TEST(InstanceLoop, EndedStepsAreDecidedUponForTheNextAndWatchedFromTheirEnd) {
  const Constant latency(Span::ms(20));
  EndedRig rig(&latency);
  rig.ended(1, 0, 3);
  EXPECT_EQ(rig.core.view(0).step.shape.decode_kv_tokens, 303) << "of the step that starts now";
  rig.ended(2, 200, 3);
  EXPECT_EQ(rig.core.next_tick(), Instant() + Span::ms(225));
  rig.ended(3, 210, 1);
  EXPECT_EQ(rig.core.next_tick(), Instant() + Span::ms(2'210))
      << "the last may have left: nothing overruns, but silence";
  rig.ended(4, 1'210, 0);
  EXPECT_EQ(rig.core.next_tick(), Instant::never()) << "a heartbeat";
}

TEST(InstanceLoop, WhatIsSentToAnIdleEngineIsDecidedUponAtOnce) {
  const Constant latency(Span::ms(20));
  EndedRig rig(&latency);
  EXPECT_TRUE(rig.work(0, 1, 1)) << "nobody else says so: no report has been heard";
  rig.work(1, 0, 0);
  rig.ended(1, 1'000, 0);
  EXPECT_TRUE(rig.work(1'500, 1, 1));
  EXPECT_EQ(rig.core.view(0).step.shape.prefill_tokens, 100);
  EXPECT_EQ(rig.core.next_tick(), Instant() + Span::ms(1'525)) << "it has begun";
  rig.ended(2, 1'501, 0);
  EXPECT_EQ(rig.core.view(0).step.shape.prefill_tokens, 100) << "a heartbeat from before";
  EXPECT_FALSE(rig.work(1'505, 2, 2)) << "it is at work";
  EXPECT_TRUE(rig.work(1'510, 0, 0)) << "and done";
  EXPECT_EQ(rig.core.view(0).telemetry, Telemetry::Idle);
  EXPECT_EQ(rig.core.next_tick(), Instant::never());
}

TEST(InstanceLoop, AnEndedStepIsWhatItWasAndTookFromTheEndBefore) {
  std::vector<predict::StepSample> seen;
  predict::OnlineLatency learner(
      std::make_shared<const Constant>(Span::ms(20)),
      [&](std::span<const predict::StepSample> samples) -> Result<std::shared_ptr<const LatencyModel>> {
        seen.assign(samples.begin(), samples.end());
        return std::make_shared<const Constant>(Span::ms(30));
      },
      {.refit_every = 2, .ring = 100, .window = 4});
  EndedRig rig(&learner, &learner);
  rig.ended(1, 0, 3);
  rig.ended(2, 200, 4);    // it began before the clock change had taken effect
  rig.ended(3, 230, 5);    // 30 ms
  rig.ended(4, 300, 6);    // 70 ms
  rig.ended(5, 1'300, 0);  // a heartbeat ends no step
  rig.ended(6, 1'400, 3);  // its start is unknown
  ASSERT_EQ(learner.counts().samples, 2);
  ASSERT_FALSE(seen.empty());
  for (const auto& sample : seen) {
    EXPECT_EQ(sample.duration, sample.shape.decode_requests == 5 ? Span::ms(30) : Span::ms(70));
  }
}

TEST(InstanceLoop, APredictorThatAnswersNonsenseIsCountedAndTheClockIsTheHighest) {
  for (const Span nonsense : {Span(), Span::ms(-1), Span::max()}) {
    const Constant latency(nonsense);
    EcoRig rig(&latency);
    rig.report(1, 0);
    rig.report(2, 200);
    EXPECT_EQ(rig.port.commands.back().mhz, 1410);
    EXPECT_EQ(rig.core.disbelieved(0), 2);
    EXPECT_EQ(rig.core.next_tick(), Instant() + Span::ms(2'200)) << "no prediction, nothing to overrun";
  }
}

TEST(InstanceLoop, WhatIsKeptIsBoundedByTheInstancesThatAreThere) {
  Rig rig;
  for (int id = 8; id < 3'008; ++id) {
    LoopInstance i;
    i.view.id = InstanceId(id);
    i.view.clock_commanded = MegaHertz(1410);
    i.policy = std::make_unique<Scripted>();
    EXPECT_EQ(rig.core.add(std::move(i)), 2U);
    rig.report(id, 1, 3, id);
    EXPECT_EQ(rig.port.commands.back(), (Port::Command{id, 1005, std::int64_t{id} * 1'000'000}));
    rig.core.remove(InstanceId(id));
    EXPECT_FALSE(rig.core.find(InstanceId(id)));
    rig.report(id, 2, 0, id);
    ASSERT_EQ(rig.core.size(), 2U);
  }
  EXPECT_EQ(rig.core.unknown_instance(), 3'000) << "what is said of those that are gone is ignored, and counted";
  rig.core.remove(InstanceId(4));
  rig.report(7, 1, 3, 4'000);
  EXPECT_EQ(rig.port.commands.back().instance, 7) << "found where it has moved to";
}

TEST(InstanceLoop, WhatOneLoopHasMeasuredAnotherLearns) {
  const auto learner = [] {
    return predict::OnlineLatency(
        std::make_shared<const Constant>(Span::ms(20)),
        [](std::span<const predict::StepSample> served) -> Result<std::shared_ptr<const LatencyModel>> {
          return std::make_shared<const Constant>(served.back().duration);
        },
        {.refit_every = 5, .ring = 100, .window = 4});
  };
  predict::OnlineLatency here = learner();
  predict::OnlineLatency there = learner();
  EcoRig measures(&here, &here);
  EcoRig hears(&there, &there);
  std::int64_t at = 0;
  for (std::int64_t sequence = 1; sequence <= 12; ++sequence) {
    measures.report(sequence, at += 30, 3 + static_cast<int>(sequence));
  }
  ASSERT_EQ(measures.port.learnt.size(), 7U);
  for (const auto& [instance, sample] : measures.port.learnt) {
    EXPECT_EQ(instance, InstanceId(1));
    hears.core.learn(0, sample, Instant() + Span::ms(at));
  }
  EXPECT_EQ(there.counts().samples, here.counts().samples);
  ASSERT_EQ(hears.port.refits, 1) << "it is due in both";
  measures.core.refitted(here, measures.port.model, Instant() + Span::ms(at));
  hears.core.refitted(there, hears.port.model, Instant() + Span::ms(at));
  EXPECT_EQ(there.step_time({}, MegaHertz{1005}), Span::ms(30));
  EXPECT_EQ(there.step_time({}, MegaHertz{1005}), here.step_time({}, MegaHertz{1005}));
  Rig plain;
  plain.core.learn(0, {}, Instant());  // nothing learns there
  EXPECT_TRUE(hears.port.learnt.empty()) << "what was heard is not said again";
}

/// While idle the clock falls by 100 MHz a second to 1210; the policy has to be called each time.
class Falling final : public policy::FrequencyPolicy {
 public:
  ClockDecision choose(const InstanceView& view, Instant now) override {
    if (view.telemetry != Telemetry::Idle) return {clock_ = MegaHertz(1410), "busy", Hold::forever()};
    if (now >= next_ && clock_ > MegaHertz(1210)) {
      clock_ = MegaHertz(clock_.value() - 100);
      next_ = now + Span::s(1);
    }
    return {clock_, "idle", clock_ > MegaHertz(1210) ? Hold{0, next_} : Hold::forever()};
  }

 private:
  MegaHertz clock_{1410};
  Instant next_ = Instant() + Span::s(1);
};

struct IdleRig : Rig {
  IdleRig() {
    LoopInstance i;
    i.view.id = InstanceId(9);
    i.view.clock_commanded = MegaHertz(1410);
    i.policy = std::make_unique<Falling>();
    core.add(std::move(i));
  }
  [[nodiscard]] std::int32_t clock() const { return core.view(2).clock_commanded.value(); }
};

TEST(InstanceLoop, an_idle_instances_policy_is_asked_when_its_decision_ends) {
  IdleRig rig;
  const auto at = [](std::int64_t ms) { return Instant() + Span::ms(ms); };
  rig.report(9, 1, 2, 100);
  EXPECT_EQ(rig.core.ask_at(2), Instant::never()) << "where steps are reported, the next one asks";
  rig.report(9, 2, 0, 200);
  EXPECT_EQ(rig.core.ask_at(2), at(1000));
  EXPECT_EQ(rig.core.next_tick(), at(1000));
  EXPECT_EQ(rig.port.idle_asks.back(), at(1000)) << "a driver without tick() hears it";
  rig.core.tick(at(999));
  EXPECT_EQ(rig.clock(), 1410);
  rig.core.tick(at(1001));
  EXPECT_EQ(rig.clock(), 1310);
  EXPECT_EQ(rig.core.ask_at(2), at(2001));
  rig.core.ask_idle(2, at(2000));
  EXPECT_EQ(rig.clock(), 1310) << "too early: nothing";
  rig.core.ask_idle(2, at(2001));
  EXPECT_EQ(rig.clock(), 1210);
  EXPECT_EQ(rig.core.ask_at(2), Instant::never()) << "nothing more to fall";
}

TEST(InstanceLoop, work_makes_it_void_that_an_idle_instance_is_to_be_asked) {
  IdleRig rig;
  const auto at = [](std::int64_t ms) { return Instant() + Span::ms(ms); };
  rig.core.idle(2, at(10));
  EXPECT_EQ(rig.core.ask_at(2), at(1000));
  rig.report(9, 1, 2, 500);
  EXPECT_EQ(rig.core.ask_at(2), Instant::never());
  rig.core.ask_idle(2, at(1000));
  rig.core.tick(at(1000));
  EXPECT_EQ(rig.clock(), 1410);
}

}  // namespace
}  // namespace wattle::control::instance_rig
