#include "predict/length_belief.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "base/random.h"

namespace wattle::predict {
namespace {

using Source = LengthBeliefOptions::Source;

Request request(std::int32_t prompt, std::int32_t hint = 0, std::int32_t tenant = 0) {
  Request r;
  r.prompt_tokens = prompt;
  r.tenant = TenantId(tenant);
  r.max_tokens = 1'000;
  r.predicted_output_tokens = hint;
  return r;
}

Outcome finished(const Request& r, std::int32_t tokens) {
  Outcome o;
  o.request = r;
  o.output_tokens = tokens;
  return o;
}

TEST(LengthBelief, HintsPassThroughAndOddOnesAreCounted) {
  LengthBelief belief;
  EXPECT_EQ(belief.predict(request(10, 123)), 123);
  EXPECT_EQ(belief.predict(request(10, 5'000)), 1'000) << "cut at max_tokens";
  EXPECT_EQ(belief.predict(request(10, 0)), 0);
  EXPECT_EQ(belief.predict(request(10, -1)), 0);
  const auto& counts = belief.counts();
  EXPECT_EQ(counts.predicted, 2);
  EXPECT_EQ(counts.absent, 1);
  EXPECT_EQ(counts.odd, 1);
  EXPECT_EQ(counts.too_long, 1);
  EXPECT_EQ(counts.fallen_back, 0);
}

TEST(LengthBelief, AHintThatKnowsNothingIsReplacedAndTakenBackOnceItKnows) {
  LengthBelief belief;
  RandomStream random(1, "test");
  for (int i = 0; i < 500; ++i) {
    const auto length = static_cast<std::int32_t>(100 + random.below(100));
    belief.observe(finished(request(10, static_cast<std::int32_t>(1 + random.below(900))), length));
  }
  EXPECT_TRUE(belief.falls_back());
  EXPECT_GT(belief.score().predictor, belief.score().constant);
  EXPECT_NEAR(belief.predict(request(10, 900)), 150, 15);
  EXPECT_EQ(belief.counts().fallen_back, 1);
  EXPECT_STREQ(belief.answer(request(10, 900)).fallback, "no better than the constant, which answers");
  EXPECT_STREQ(belief.answer(request(10, 0)).fallback, "no prediction: the constant answers");
  for (int i = 0; i < 5'000; ++i) {
    const auto length = static_cast<std::int32_t>(100 + random.below(100));
    belief.observe(finished(request(10, length), length));
  }
  EXPECT_FALSE(belief.falls_back());
  EXPECT_EQ(belief.predict(request(10, 900)), 900);
  EXPECT_EQ(belief.answer(request(10, 900)).fallback, nullptr);
}

TEST(LengthBelief, WithoutFallBackItStandsByThePredictor) {
  LengthBelief belief({Source::Hint, 0.5, false});
  for (int i = 0; i < 500; ++i) belief.observe(finished(request(10, 900), 100));
  EXPECT_FALSE(belief.falls_back());
  EXPECT_EQ(belief.predict(request(10, 900)), 900);
  EXPECT_EQ(belief.predict(request(10, 0)), 0);
}

TEST(LengthBelief, LearnsWhatTenantAndPromptTell) {
  LengthBelief belief({Source::Learned, 0.5, true});
  EXPECT_EQ(belief.predict(request(10)), 0) << "nothing seen yet";
  RandomStream random(2, "test");
  const auto truth = [&](std::int32_t prompt, std::int32_t tenant) {
    return (prompt > 300 ? 600 : 100) + 200 * tenant + static_cast<std::int32_t>(random.below(20));
  };
  for (int i = 0; i < 2'000; ++i) {
    const auto prompt = static_cast<std::int32_t>(random.below(2) == 0 ? 50 : 2'000);
    const auto tenant = static_cast<std::int32_t>(random.below(2));
    const auto r = request(prompt, 0, tenant);
    belief.observe(finished(r, truth(prompt, tenant)));
  }
  EXPECT_FALSE(belief.falls_back());
  EXPECT_LT(belief.score().predictor, 0.3 * belief.score().constant);
  EXPECT_NEAR(belief.predict(request(50, 0, 0)), 110, 15);
  EXPECT_NEAR(belief.predict(request(50, 0, 1)), 310, 20);
  EXPECT_NEAR(belief.predict(request(2'000, 0, 1)), 810, 40);
}

TEST(LengthBelief, LearningFromPromptsThatTellNothingGainsNothing) {
  // Fewer samples to each sketch: the constant knows as much or more.
  LengthBelief belief({Source::Learned, 0.5, true});
  RandomStream random(3, "test");
  for (int i = 0; i < 3'000; ++i) {
    const auto r =
        request(static_cast<std::int32_t>(1 + random.below(4'000)), 0, static_cast<std::int32_t>(random.below(40)));
    belief.observe(finished(r, static_cast<std::int32_t>(1 + random.below(900))));
  }
  EXPECT_TRUE(belief.falls_back());
}

TEST(LengthBelief, OnlyFinishedAnswersTeach) {
  LengthBelief belief({Source::Learned, 0.5, true});
  auto cut = finished(request(10), 3);
  for (const Fate fate : {Fate::Cancelled, Fate::Failed, Fate::Rejected}) {
    cut.fate = fate;
    for (int i = 0; i < 100; ++i) belief.observe(cut);
  }
  EXPECT_EQ(belief.predict(request(10)), 0);
}

TEST(LengthBelief, TheRestIsConditionalOnWhatCameAlready) {
  LengthBelief belief({Source::Learned, 0.5, true});
  for (int i = 0; i < 100; ++i) belief.observe(finished(request(10), i % 2 == 0 ? 100 : 500));
  EXPECT_NEAR(belief.expected_tokens(request(10), 0), 100, 4);
  EXPECT_NEAR(belief.expected_tokens(request(10), 200), 500, 16);
  EXPECT_EQ(belief.expected_tokens(request(10), 600), 0) << "nobody went on so long";
  EXPECT_EQ(belief.expected_tokens(request(10), 1'000), 0) << "the cap";
}

RC_GTEST_PROP(LengthBeliefProperty, PredictionsAreInRangeAndBooksBalance, (std::uint64_t seed)) {
  RandomStream random(seed, "test");
  LengthBelief belief({random.below(2) == 0 ? Source::Hint : Source::Learned, 0.9, random.below(2) == 0});
  for (int i = 0; i < 400; ++i) {
    Request r = request(static_cast<std::int32_t>(random.below(100'000)) - 10, 0);
    r.predicted_output_tokens = static_cast<std::int32_t>(random.next_u64());
    r.max_tokens = static_cast<std::int32_t>(random.below(5'000)) - 5;
    const auto predicted = belief.predict(r);
    RC_ASSERT(predicted >= 0 && predicted <= std::max(r.max_tokens, 1));
    const auto produced = static_cast<std::int32_t>(random.below(6'000));
    const auto total = belief.expected_tokens(r, produced);
    RC_ASSERT(total == 0 || (total > produced && total <= std::max(r.max_tokens, 1)));
    belief.observe(finished(r, static_cast<std::int32_t>(random.below(5'000))));
  }
  RC_ASSERT(belief.counts().predicted <= 400);
  RC_ASSERT(std::isfinite(belief.score().predictor) && std::isfinite(belief.score().constant));
}

}  // namespace
}  // namespace wattle::predict
