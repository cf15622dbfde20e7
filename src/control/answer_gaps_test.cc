#include "control/answer_gaps.h"

#include <gtest/gtest.h>

#include "control/pool_objectives.h"

namespace wattle::control {
namespace {

constexpr Span kE2e = Span::s(10);

/// First token after 1 s.
Outcome answer(std::int32_t tokens, Instant arrival = Instant(), Span gap = Span::ms(20)) {
  Outcome o;
  o.request.arrival = arrival;
  o.first_token = arrival + Span::s(1);
  o.output_tokens = tokens;
  o.left = o.first_token + gap * (tokens - 1);
  return o;
}

Instant later() { return Instant() + Span::s(100); }

TEST(AnswerGaps, AFirstAnswerSaysNothingOfLongerOnes) {
  AnswerGaps gaps(0.01);
  EXPECT_EQ(gaps.limit(Span::ms(5), later()), AnswerGaps::kNothingKnown);
  gaps.add(answer(101), kE2e, {});
  EXPECT_EQ(gaps.limit(Span::ms(5), Instant() + Span::s(9)), AnswerGaps::kNothingKnown);
  EXPECT_EQ(gaps.limit(Span::ms(5), Instant() + kE2e), Span::ms(90)) << "9 s for 100 gaps";
}

TEST(AnswerGaps, AreKnownOnceTheFirstRequestsHaveFinished) {
  AnswerGaps gaps(0.25);
  const auto at = [](int seconds) { return Instant() + Span::s(seconds); };
  for (int i = 0; i < 5; ++i) gaps.expect(at(i));
  gaps.add(answer(101, at(4)), kE2e, {});  // the fifth
  for (int i = 0; i < 3; ++i) gaps.add(answer(11, at(i)), kE2e, {});
  EXPECT_EQ(gaps.limit({}, at(5)), AnswerGaps::kNothingKnown) << "the fourth still runs";
  gaps.add(answer(201, at(3)), kE2e, {});
  EXPECT_EQ(gaps.limit({}, at(5)), Span::s(9) / 100) << "one of five tolerates less";
}

TEST(AnswerGaps, ARequestThatNeverFinishesDelaysThemNoLongerThanTheObjective) {
  AnswerGaps gaps(0.5);
  const Instant first = Instant() + Span::s(1);
  for (int i = 0; i < 2; ++i) gaps.expect(first);
  gaps.add(answer(101, first), kE2e, {});
  EXPECT_EQ(gaps.limit({}, first + Span::s(9)), AnswerGaps::kNothingKnown);
  EXPECT_EQ(gaps.limit({}, first + kE2e), Span::ms(90));
}

TEST(AnswerGaps, AShareOfAnswersMayTolerateLess) {
  AnswerGaps gaps(0.1);
  for (std::int32_t n = 1; n <= 20; ++n) gaps.add(answer(1 + 10 * n), kE2e, {});
  EXPECT_EQ(gaps.limit({}, later()), Span::s(9) / 180) << "two of 20 are longer";
  EXPECT_EQ(gaps.limit(Span::s(9) / 155, later()), Span::s(9) / 130) << "five more than could be in time";
}

TEST(AnswerGaps, AnswersOfOneTokenTolerateAnyGap) {
  AnswerGaps gaps(0.01);
  gaps.add(answer(1), kE2e, Span::ms(20));
  EXPECT_GT(gaps.limit({}, later()), kE2e);
}

TEST(AnswerGaps, TheFastestGapsAreSlowerThanStepsOfDecodesAlone) {
  AnswerGaps gaps(0.0);
  for (const std::int32_t tokens : {101, 301}) gaps.add(answer(tokens, {}, Span::ms(20)), kE2e, Span::ms(10));
  EXPECT_EQ(gaps.limit(Span::ms(10), later()), Span::ms(30)) << "20 ms with prompts";
  EXPECT_EQ(gaps.limit(Span::ms(20), later()), Span::ms(90)) << "the longer one is late anyway";
}

TEST(AnswerOptions, AnObjectiveForAnswersLimitsFirstTokensAndGaps) {
  Slo stated;
  stated.e2e = kE2e;
  EXPECT_EQ(AnswerOptions{}.aims(stated), stated);
  const AnswerOptions options{0.02, 0.1};
  EXPECT_EQ(options.aims(stated).ttft, Span::s(1));
  EXPECT_TRUE(options.aims(stated).ttft_of_answers);
  EXPECT_EQ(options.aims(stated).tbt, kE2e);
  stated.ttft = Span::ms(400);
  stated.tbt = Span::ms(30);
  EXPECT_EQ(options.aims(stated), stated) << "stricter ones stay";
  stated.e2e.reset();
  stated.ttft = Span::s(60);
  EXPECT_EQ(options.aims(stated), stated);
}

TEST(FastestStep, RequestsAreSpreadAndFewerAtHigherClocks) {
  class Model final : public LatencyModel {
   public:
    [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
      return Span::ms(shape.decode_requests) * (clock == MegaHertz(500) ? 2 : 1);
    }
  } model;
  InstanceSpec spec;
  spec.beliefs.latency = &model;
  spec.clocks = {MegaHertz(500), MegaHertz(1000)};
  std::vector<InstanceView> views(3);
  for (InstanceView& view : views) view.spec = &spec;
  views[0].assigned_requests = 40;
  views[1].clock_commanded = MegaHertz(500);
  views[2].accepting = false;
  // 20 each; the second has half as many at twice the clock.
  EXPECT_EQ(fastest_step(views), Span::ms(15));
  EXPECT_EQ(fastest_step({}), Span());
  views[0].step.shape.decode_requests = 7;
  EXPECT_EQ(present_step(views[0]), Span::ms(7));
  EXPECT_EQ(present_step(InstanceView{}), Span());
}

TEST(PoolObjectives, ALimitOnGapsIsKeptBesidesTheObjectives) {
  Slo slo;
  slo.e2e = kE2e;
  PoolObjectives keeps(Objectives(slo), {}, {0.02, 0.1});
  keeps.add(0);
  EXPECT_EQ(keeps.mean_gap(0), kE2e);
  EXPECT_TRUE(keeps.strictest(0));
  keeps.limit(0, Span::ms(40));
  EXPECT_TRUE(keeps.again(0));
  EXPECT_FALSE(keeps.strictest(0)) << "so that an instance hears of it when it joins";
  EXPECT_EQ(keeps.of(0).tbt, Span::ms(40));
  EXPECT_TRUE(keeps.of(0).tbt_of_answers);
  EXPECT_EQ(keeps.of(0).ttft, Span::s(1));
  EXPECT_FALSE(keeps.again(0));
}

TEST(PoolObjectives, AStatedObjectiveForGapsIsNotOneOfAnswers) {
  Slo slo;
  slo.e2e = kE2e;
  slo.tbt = Span::ms(30);
  PoolObjectives keeps(Objectives(slo), {}, {0.02, 0.1});
  keeps.add(0);
  keeps.limit(0, Span::ms(40));
  EXPECT_FALSE(keeps.again(0));
  EXPECT_EQ(keeps.of(0).tbt, Span::ms(30));
  EXPECT_FALSE(keeps.of(0).tbt_of_answers);
}

}  // namespace
}  // namespace wattle::control
