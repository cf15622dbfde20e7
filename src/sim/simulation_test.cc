// INV-6: fast-forward equals step by step, to the nanosecond and the picojoule, in random fleets with random clocks,
// holds, faults and cache sizes. Every run has all checkers on.
#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "sim/random_case_test.h"

namespace wattle::sim {
namespace {

class FastForward : public testing::TestWithParam<std::uint64_t> {};

TEST_P(FastForward, EqualsStepByStep) {
  const Case c = draw(GetParam());
  const Played stepped = play(c, false);
  const Played fast = play(c, true);
  expect_equal(stepped, fast);
  // The closed form was really used, and looking at the run does not change it.
  EXPECT_LE(fast.result.summary.sim.events, stepped.result.summary.sim.events);
  expect_equal(fast, play(c, true, true));
}

TEST_P(FastForward, ReRunIsByteIdentical) {
  const Case c = draw(GetParam());
  expect_equal(play(c, true), play(c, true));
}

TEST_P(FastForward, RequestsAndEnergyAreConserved) {
  const Case c = draw(GetParam());
  const Played r = play(c, true);
  const auto& s = r.result.summary;
  EXPECT_EQ(s.requests.arrived, static_cast<std::int64_t>(c.rows.size()));
  EXPECT_EQ(s.requests.arrived, s.requests.finished + s.requests.rejected + s.requests.failed + s.requests.cancelled +
                                    s.requests.in_flight);
  Picojoules booked;
  std::int64_t tokens = 0;
  for (const auto& [id, o] : r.outcomes) {
    booked += o.energy;
    tokens += o.output_tokens;
    if (o.fate == Fate::Finished) {
      EXPECT_EQ(o.output_tokens, c.rows[static_cast<std::size_t>(id)].output_tokens);
      EXPECT_GE(o.first_token, o.request.arrival);
      EXPECT_GE(o.left, o.first_token);
      EXPECT_LE(o.gaps_within_itl, o.output_tokens - 1);
      EXPECT_GE(o.longest_gap + Span::ns(1), o.tbt()) << "but for rounding";
      EXPECT_LE(o.longest_gap, o.left - o.first_token);
    }
  }
  EXPECT_EQ(tokens, s.tokens.output);
  EXPECT_EQ(r.steps_in_stretches, s.sim.iterations) << "also of steps that are simulated together";
  EXPECT_NEAR(booked.joules().value(), s.energy.prefill.value() + s.energy.decode.value(), 1e-6);
  EXPECT_NEAR(s.energy.busy.value() + s.energy.idle.value(), s.energy.total.value(), 1e-9 * s.energy.total.value());
  if (c.faults.empty()) {
    // Every picojoule of work belongs to a request, save what integer division leaves.
    EXPECT_NEAR(s.energy.prefill.value() + s.energy.decode.value(), s.energy.busy.value(),
                1e-9 * s.energy.total.value());
  }
}

INSTANTIATE_TEST_SUITE_P(Random, FastForward, testing::Range<std::uint64_t>(1, 121));

TEST(Simulation, RandomCasesReachTheRareBranches) {
  std::map<std::string_view, int> reasons;
  std::int64_t preemptions = 0, changes = 0, rejected = 0, failed = 0, overruns = 0, adopted = 0;
  journal::EmergencyCounts steps;
  for (std::uint64_t seed = 1; seed < 121; ++seed) {
    const Played played = play(draw(seed), true);
    const auto& summary = played.result.summary;
    for (const auto& d : played.phases) ++reasons[d.reason];
    preemptions += summary.requests.preemptions;
    changes += summary.clock_changes;
    rejected += summary.requests.rejected;
    failed += summary.requests.failed;
    overruns += summary.overruns;
    adopted += summary.prediction.adopted;
    steps.reordered += summary.emergency.reordered;
    steps.boosted += summary.emergency.boosted;
    steps.resteered += summary.emergency.resteered;
    steps.squashed += summary.emergency.squashed;
  }
  EXPECT_GT(steps.reordered, 10);
  EXPECT_GT(steps.boosted, 10);
  EXPECT_GT(steps.resteered, 10);
  EXPECT_GT(steps.squashed, 10);
  EXPECT_GT(overruns, 1000);
  EXPECT_GT(adopted, 30);
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(changes, 1000);
  EXPECT_GT(rejected, 10);
  EXPECT_GT(failed, 100);
  EXPECT_GT(reasons["it takes requests"], 100);
  EXPECT_GT(reasons["drained"], 50);
  EXPECT_GT(reasons["it died"], 15);
  EXPECT_GT(reasons["called back from draining"], 5);
  EXPECT_GT(reasons["no longer wanted"], 10);
}

/// Plans the larger shape from the start.
class Larger final : public policy::ScalingPolicy {
 public:
  Plan plan(const policy::ScalingView&) override { return Plan::of(wanted_, "larger"); }

 private:
  std::vector<std::int32_t> wanted_{0, 1};
};

Case growing() {
  Case c;
  c.memory_bytes = 80e9;
  c.threshold_batch = 1000;
  c.threshold_kv = 1'000'000'000;
  c.scaled = true;
  c.policy = [] { return std::make_unique<Larger>(); };
  c.plan_period = Span::s(10);
  c.load = Span::s(20);
  c.warm = Span::s(5);
  for (int i = 0; i < 100; ++i) c.rows.push_back({Instant() + Span::s(i), 100, 20});
  return c;
}

TEST(Simulation, AShadowInstanceDrawsPowerBeforeItServesAndNoneOnceGone) {
  const auto r = play(growing(), true, true);
  const double end = r.result.summary.sim.virtual_s;
  double gone = 0.0;
  for (const auto& d : r.phases) {
    if (static_cast<journal::Phase>(d.value) == journal::Phase::Gone) gone = d.at.seconds();
  }
  EXPECT_GE(gone, 35.0) << "planned at 10 s, serving 25 s later";
  EXPECT_LT(gone, 37.0) << "what it had in it is short";
  EXPECT_NEAR(r.result.summary.mean_gpus, (gone * 1 + (end - 10.0) * 2) / end, 1e-9);
  Picojoules power;
  for (const auto& s : r.samples) {
    const double t = s.at.seconds();
    EXPECT_TRUE(s.instance.value() == 0 ? t <= gone : t >= 10.0) << t;
    EXPECT_GT(s.power, Milliwatts(0)) << t;
    EXPECT_TRUE(s.instance.value() == 0 || t >= 35.0 || s.decode_requests + s.prefill_tokens == 0) << t;
    power += energy_over(s.power, Span::ms(37));
  }
  EXPECT_NEAR(power.joules().value(), r.result.summary.energy.total.value(), 0.03 * power.joules().value());
  for (const auto& [id, o] : r.outcomes) {
    EXPECT_EQ(o.fate, Fate::Finished);
    EXPECT_EQ(o.decode_instance.value(), o.request.arrival < Instant() + Span::s(35) ? 0 : 1) << id;
  }
}

TEST(Simulation, WhatHasHadNoTokenWhenItsInstanceDiesIsComputedElsewhereOnce) {
  const auto played = [](std::vector<Fault> faults) {
    Case c;
    c.memory_bytes = 80e9;
    c.colocated = 2;
    c.rows = {{Instant(), 100, 500}, {Instant(), 100, 500}, {Instant() + Span::ms(999), 4000, 20}};
    c.faults = std::move(faults);
    const auto r = play(c, true);
    expect_equal(r, play(c, false));
    EXPECT_EQ(r.outcomes.size(), 3U);
    return r;
  };
  for (const std::int32_t dies : {0, 1}) {
    const auto r = played({{Instant() + Span::s(1), InstanceId(dies), Span::max()}});
    EXPECT_EQ(r.result.summary.requests.failed, 1) << "the one that had had some of its answer";
    EXPECT_EQ(r.outcomes.at(2).fate, Fate::Finished);
    EXPECT_EQ(r.outcomes.at(2).decode_instance, InstanceId(1 - dies));
  }
  const auto r = played(
      {{Instant() + Span::s(1), InstanceId(0), Span::max()}, {Instant() + Span::ms(1001), InstanceId(1), Span::max()}});
  EXPECT_EQ(r.result.summary.requests.failed + r.result.summary.requests.in_flight, 3);
}

TEST(Simulation, APromptWhoseDecodeOrPrefillInstanceDiesOnTheWayIsComputedAgain) {
  Case c;
  c.memory_bytes = 80e9;
  c.colocated = 0;
  c.prefill = c.decode = 2;
  c.link.bandwidth_bytes_per_s = 1e9;
  c.link.latency = Span::s(2);
  c.rows = {{Instant(), 100, 20}};
  const auto whole = play(c, true);
  const auto& o = whole.outcomes.at(0);
  EXPECT_GT(o.first_token, Instant() + Span::s(2)) << "the decode instance sends it";
  for (const InstanceId dies : {o.prefill_instance, o.decode_instance}) {
    c.faults = {{Instant() + Span::s(1), dies, Span::max()}};
    const auto r = play(c, true);
    expect_equal(r, play(c, false));
    const auto& again = r.outcomes.at(0);
    EXPECT_EQ(again.fate, Fate::Finished);
    EXPECT_NE(dies, dies == o.prefill_instance ? again.prefill_instance : again.decode_instance);
    EXPECT_GT(again.first_token, o.first_token);
  }
}

TEST(Simulation, AnEngineThatDiesWhileStartingIsStartedAgain) {
  Case c = growing();
  c.faults = {{Instant() + Span::s(20), InstanceId(1), Span::max()}};
  const auto r = play(c, true);
  EXPECT_EQ(r.result.summary.requests.finished, 100) << "the old one serves on";
  EXPECT_EQ(r.outcomes.at(99).decode_instance, InstanceId(2));
  expect_equal(r, play(c, false));
}

TEST(Simulation, AServingEngineThatDiesIsReplacedAndNothingIsForgotten) {
  Case c = growing();
  c.faults = {{Instant() + Span::s(40), InstanceId(1), Span::max()}};
  const auto r = play(c, true);
  const auto& counts = r.result.summary.requests;
  EXPECT_EQ(counts.arrived, 100);
  EXPECT_EQ(counts.finished + counts.failed, 100);
  EXPECT_LE(counts.failed, 2) << "those that were in it; others waited for the next one";
  EXPECT_EQ(r.outcomes.at(50).decode_instance, InstanceId(2));
  EXPECT_GE(r.outcomes.at(50).dispatched, Instant() + Span::s(65));
  expect_equal(r, play(c, false));
}

TEST(Simulation, AnOverrunRaisesTheClockWithinTheStep) {
  Case c;
  c.memory_bytes = 80e9;
  c.threshold_batch = 1000;  // low, but for overruns
  c.threshold_kv = 1'000'000'000;
  c.dwells = true;
  c.rows = {{Instant(), 1, 400}};
  c.belief = 1.0;
  c.overrun_slack = Span::ms(5);
  const auto calm = play(c, true).result.summary;
  EXPECT_EQ(calm.overruns, 0);
  c.belief = 0.5;
  c.overrun_slack = Span::ms(1);
  const auto hasty = play(c, true).result.summary;
  EXPECT_GT(hasty.overruns, 1);
  EXPECT_GT(hasty.clock_mean_mhz, calm.clock_mean_mhz + 200.0);
  EXPECT_LT(hasty.itl.mean_ms, calm.itl.mean_ms);
}

// Prompts of up to 20 s a step: telemetry counts as lost meanwhile, and new requests are inferred from streams.
TEST(Simulation, StepsThatOutlastTheWaitForReportsAreWatchedFromTheNewestDecision) {
  std::int64_t longest_ms = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Case c = draw(seed);
    c.telemetry = TelemetrySource::StepEnds;
    c.memory_bytes = 80e9;
    c.engine.max_num_batched_tokens = 200'000;
    for (std::size_t i = 0; i < c.rows.size(); i += 7) c.rows[i] = {c.rows[i].arrival, 90'000, 30};
    SCOPED_TRACE(seed);
    const Played fast = play(c, true);
    expect_equal(play(c, false), fast);
    for (const auto& [id, o] : fast.outcomes) longest_ms = std::max(longest_ms, o.longest_gap.ns() / 1'000'000);
  }
  EXPECT_GT(longest_ms, 10'000);
}

TEST(Simulation, APredictorOffByAHalfLearns) {
  Case c;
  c.memory_bytes = 80e9;
  for (int i = 0; i < 400; ++i) c.rows.push_back({Instant(Span::ms(20 * i).ns()), 50 + i, 20});
  c.belief = 1.5;
  c.learns = true;
  const auto learnt = play(c, true).result.summary;
  EXPECT_GT(learnt.prediction.adopted, 0);
  EXPECT_GT(learnt.prediction.decode.samples, 50);
  EXPECT_LT(learnt.prediction.decode.active_ms, 0.5 * learnt.prediction.decode.offline_ms);
}

TEST(Simulation, FastForwardSkipsMostEvents) {
  Case c;
  c.memory_bytes = 80e9;
  c.threshold_batch = 1000;
  c.threshold_kv = 1'000'000'000;
  c.rows = {{Instant(), 100, 500}, {Instant(1), 100, 700}};
  const auto stepped = play(c, false);
  const auto fast = play(c, true);
  expect_equal(stepped, fast);
  EXPECT_GT(stepped.result.summary.sim.events, 10 * fast.result.summary.sim.events);
}

TEST(Simulation, TheDecodeEngineSendsTheFirstTokenAfterSoManyOfItsStepsOnAverage) {
  Case c;
  c.colocated = 0;
  c.prefill = c.decode = 1;
  c.memory_bytes = 80e9;
  c.link.bandwidth_bytes_per_s = 0.0;
  c.delays = {Span(), Span()};
  c.threshold_batch = 1000;
  c.threshold_kv = 1'000'000'000;
  constexpr std::int64_t kLater = 400;
  c.rows = {{Instant(), 100, 30000}};
  for (std::int64_t i = 1; i <= kLater; ++i) c.rows.push_back({Instant(i * 800'000'000), 100, 2});
  const auto without = play(c, true);
  const auto ttft = [](const Played& p, std::int64_t id) {
    return p.outcomes.at(id).first_token - p.outcomes.at(id).request.arrival;
  };
  c.link.handoff_steps = 4.0;
  const auto with = play(c, true);
  expect_equal(play(c, false), with);
  EXPECT_EQ(ttft(with, 0), ttft(without, 0)) << "an idle decode engine takes it at once";
  const Outcome& first = without.outcomes.at(0);
  ASSERT_GT(first.left, Instant((kLater + 1) * 800'000'000)) << "the others come while it runs";
  const double step = (first.left - first.first_token).seconds() / 29999.0;
  double added = 0.0;
  int short_waits = 0;
  for (std::int64_t i = 1; i <= kLater; ++i) {
    const double steps = (ttft(with, i) - ttft(without, i)).seconds() / step;
    added += steps / kLater;
    short_waits += steps < 4.5 ? 1 : 0;
    EXPECT_EQ(with.outcomes.at(i).output_tokens, 2);
  }
  EXPECT_NEAR(added, 4.5, 0.8) << "four on average, and the rest of the one in progress";
  EXPECT_NEAR(short_waits, 0.63 * kLater, 0.1 * kLater) << "exponential: most wait less than the mean";
}

TEST(Simulation, RequestThatCanNeverFitIsRejectedAndTheRestGoesOn) {
  Case c;
  c.memory_bytes = 20.4e9;
  c.rows = {{Instant(), 200'000, 5}, {Instant(1), 100, 20}};
  const auto r = play(c, true);
  EXPECT_EQ(r.outcomes.at(0).fate, Fate::Rejected);
  EXPECT_EQ(r.outcomes.at(1).fate, Fate::Finished);
}

TEST(Simulation, GapsAreHeldToTheObjectiveOfTheirRequest) {
  Case c;
  c.memory_bytes = 80e9;
  c.colocated = 1;
  Slo fleet;
  fleet.itl = Span::s(1);
  std::vector<Slo> by_size(2);
  by_size[1].itl = Span::us(1);
  c.service.objectives = Objectives(fleet, Classifier({}, {60}), by_size, {});
  c.rows = {{Instant(), 100, 50}, {Instant(), 100, 100}};
  const auto r = play(c, true);
  EXPECT_EQ(r.outcomes.at(0).gaps_within_itl, 49);
  EXPECT_EQ(r.outcomes.at(1).gaps_within_itl, 0) << "no answer that turned out so long has so short gaps";
  EXPECT_DOUBLE_EQ(r.result.summary.slo.itl, 49.0 / (49 + 99));
}

Case one_at_a_time() {
  Case c;
  c.memory_bytes = 80e9;
  c.displacing = true;
  c.in_flight = 1;
  c.rows = {{Instant(), 100, 1000}, {Instant() + Span::s(1), 100, 10}};
  return c;
}

TEST(Simulation, OneMoreUrgentDisplacesARunningOneWhichIsComputedAgain) {
  Case c = one_at_a_time();
  const auto r = play(c, true);
  const auto& held = r.outcomes.at(0);
  const auto& urgent = r.outcomes.at(1);
  EXPECT_LT(urgent.left, held.left);
  EXPECT_EQ(held.preemptions, 1);
  EXPECT_EQ(held.output_tokens, 1000);
  EXPECT_LT(held.first_token, Instant() + Span::s(1)) << "its first token is not given twice";
  EXPECT_GE(held.longest_gap, urgent.left - urgent.prefill_start) << "the gap spans its absence";
  c.margin = Span::s(1000);
  const auto kept = play(c, true);
  EXPECT_EQ(kept.outcomes.at(0).preemptions, 0);
  EXPECT_GT(kept.outcomes.at(1).left, kept.outcomes.at(0).left);
  EXPECT_LT(kept.result.summary.energy.prefill.value(), r.result.summary.energy.prefill.value())
      << "what was displaced is computed again, and paid for";
}

TEST(Simulation, TheTripToTheSiteIsPartOfWhatTheUserWaits) {
  Case c;
  c.memory_bytes = 80e9;
  c.rows = {{Instant() + Span::s(1), 100, 20}, {Instant() + Span::s(5), 200, 20}};
  const auto near = play(c, true);
  c.round_trips = {{Span::ms(80)}};
  const auto far = play(c, true);
  for (std::int64_t id : {0, 1}) {
    EXPECT_EQ(far.outcomes.at(id).ttft(), near.outcomes.at(id).ttft() + Span::ms(80));
    EXPECT_EQ(far.outcomes.at(id).tbt(), near.outcomes.at(id).tbt());
  }
}

/// When requests of one engine finish that faults, in whatever order they are said, keep down.
std::vector<Instant> finish_under(std::vector<Fault> faults) {
  Case c;
  c.memory_bytes = 80e9;
  for (int i = 0; i < 10; ++i) c.rows.push_back({Instant() + Span::s(i), 100, 5});
  c.faults = std::move(faults);
  const auto r = play(c, true);
  expect_equal(r, play(c, false));
  EXPECT_EQ(r.result.summary.requests.arrived, 10);
  EXPECT_EQ(r.result.summary.requests.in_flight, 0);
  std::vector<Instant> when;
  for (const auto& [id, o] : r.outcomes) {
    if (o.fate == Fate::Finished) when.push_back(o.left);
  }
  return when;
}

TEST(Simulation, FaultsThatOverlapKeepAnInstanceDownAsLongAsTheLongest) {
  const auto at = [](double s) { return Instant() + Span::from_seconds(s); };
  const Fault long_one{at(2.5), InstanceId(0), Span::s(5)};   // until 7.5
  const Fault short_one{at(2.4), InstanceId(0), Span::s(1)};  // until 3.4
  for (const auto& when : {finish_under({short_one, long_one}), finish_under({long_one, short_one}),
                           finish_under({long_one, short_one, long_one, short_one}),
                           finish_under({{at(4), InstanceId(0), Span()}, long_one})}) {
    ASSERT_EQ(when.size(), 10U) << "none was in it as it died";
    EXPECT_TRUE(std::ranges::none_of(when, [&](Instant t) { return t >= at(2.5) && t < at(7.5); }));
  }
  // At the very beginning, and of no length: it is there for the first request.
  EXPECT_LT(finish_under({{at(0), InstanceId(0), Span()}}).front(), at(1));
  // Of one that is not there: nothing happens.
  EXPECT_EQ(finish_under({{at(1), InstanceId(99), Span::max()}}), finish_under({}));
}

/// Time of the longest gap of a request that decodes from 0 to about 4 s, and energy, if the GPU is limited like this.
std::pair<Span, double> limited(std::vector<Fault> faults) {
  Case c;
  c.memory_bytes = 80e9;
  c.rows = {{Instant(), 3000, 400}};
  c.faults = std::move(faults);
  const auto r = play(c, true);
  expect_equal(r, play(c, false));
  EXPECT_EQ(r.outcomes.at(0).fate, Fate::Finished);
  return {r.outcomes.at(0).longest_gap, r.result.summary.energy.total.value()};
}

TEST(Simulation, AHotGpuLosesNothingAndRunsAtItsLimitForAsLongAsItLasts) {
  const auto at = [](double s) { return Instant() + Span::from_seconds(s); };
  const auto hot = [&](double from, double for_s, double share) {
    return Fault{at(from), InstanceId(0), Span::from_seconds(for_s), {}, share};
  };
  const auto [gap, energy] = limited({});
  const auto [slow_gap, less] = limited({hot(1, 1, 0.2)});
  EXPECT_GT(slow_gap, gap + Span::ms(1));
  EXPECT_LT(less, energy) << "at a low clock";
  EXPECT_EQ(limited({hot(1, 1, 1.0)}), std::pair(gap, energy)) << "no limit";
  EXPECT_EQ(limited({hot(1, 0.5, 0.2), hot(1.5, 0.5, 0.2)}), limited({hot(1, 1, 0.2)})) << "one after the other";
  EXPECT_EQ(limited({hot(1, 1, 0.2), hot(1.25, 0.5, 0.2)}).first, slow_gap) << "the shorter one ends within the longer";
  EXPECT_EQ(limited({hot(1, 1, 0.2), hot(1.25, 0.5, 1.0)}), limited({hot(1, 1, 0.2)})) << "the lowest limit holds";
  EXPECT_EQ(limited({hot(1, 1, 1.0), hot(1.25, 0.25, 0.2)}), limited({hot(1.25, 0.25, 0.2)})) << "for its own time";
  EXPECT_EQ(limited({hot(30, 1, 0.2)}).first, gap) << "later";
}

TEST(Simulation, DeadFleetLeavesNobodyWaitingForever) {
  Case c;
  c.memory_bytes = 80e9;
  c.rows = {{Instant(), 100, 500}, {Instant(2'000'000'000), 100, 20}};
  c.faults = {{Instant(1'000'000'000), InstanceId(0), Span::max()}};
  const auto r = play(c, true);
  EXPECT_EQ(r.outcomes.at(0).fate, Fate::Failed);
  EXPECT_EQ(r.result.summary.requests.in_flight, 1) << "held: nothing accepts it, and nothing ever will";
  ASSERT_EQ(r.left_behind.size(), 1U);
  EXPECT_EQ(r.left_behind.front().fate, Fate::InFlight);
  EXPECT_EQ(r.left_behind.front().request.arrival, Instant(2'000'000'000));
}

}  // namespace
}  // namespace wattle::sim
