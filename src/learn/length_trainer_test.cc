#include "learn/length_trainer.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "predict/length_learner.h"

namespace wattle::learn {

namespace {
using predict::features_of;
using predict::LengthAnswer;
using predict::LengthLearner;
using predict::LengthTrees;

/// Made-up prompts: the kind of request determines the answer's length, or, with `blind`, chance does.
LengthAnswer answer(RandomStream& random, bool blind = false) {
  constexpr std::array<const char*, 4> kAsks = {"answer yes or no", "summarise in one sentence", "explain step by step",
                                                "write a long essay"};
  constexpr std::array<int, 4> kTokens = {3, 40, 300, 900};
  const std::size_t ask = random.below(4);
  std::string prompt = kAsks[ask];
  for (std::size_t w = random.below(30); w > 0; --w) prompt += fmt::format(" filler{}", random.below(50));
  const std::size_t length = blind ? random.below(4) : ask;
  const double spread = std::exp(0.2 * random.normal());
  return {features_of({}, prompt), static_cast<std::int32_t>(std::lround(kTokens[length] * spread))};
}

std::vector<LengthAnswer> answers(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed, "test.answers");
  std::vector<LengthAnswer> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(answer(random));
  return out;
}

LengthTrees grown(const std::vector<LengthAnswer>& from, const LengthTraining& training = {}) {
  const auto model = train_length_trees(from, training);
  EXPECT_TRUE(model.has_value());
  auto trees = LengthTrees::from_xgboost(*model);
  EXPECT_TRUE(trees.has_value()) << trees.error().message();
  return *std::move(trees);
}
}  // namespace

TEST(LengthTrainer, LearnsTheAsk) {
  const auto trees = grown(answers(500, 1));
  EXPECT_GT(trees.tokens(features_of({}, "write a long essay")), 500.0);
  EXPECT_LT(trees.tokens(features_of({}, "answer yes or no")), 20.0);
  const auto prompt = features_of({}, "explain step by step why");
  EXPECT_EQ(trees.tokens(prompt), grown(answers(500, 1)).tokens(prompt)) << "equal answers, equal trees";
}

TEST(LengthTrainer, AQuantileIsWhatSoManyAnswersDoNotExceed) {
  const auto learned = answers(800, 2);
  for (const double quantile : {0.5, 0.9}) {
    const auto trees = grown(learned, {.quantile = quantile});
    auto seen = answers(400, 3);
    std::erase_if(seen, [](const LengthAnswer& a) { return a.tokens < 10; });  // whole tokens: many are equal
    const auto within =
        std::ranges::count_if(seen, [&](const LengthAnswer& a) { return a.tokens <= trees.tokens(a.prompt); });
    EXPECT_NEAR(static_cast<double>(within) / static_cast<double>(seen.size()), quantile, 0.08);
  }
}

TEST(LengthTrainer, RefusesTooFewAndWhatIsNoModel) {
  EXPECT_FALSE(train_length_trees(answers(kFewestAnswers - 1, 1)).has_value());
  EXPECT_FALSE(LengthTrees::from_xgboost("").has_value());
  auto model = *train_length_trees(answers(100, 1));
  model.resize(model.size() / 2);
  EXPECT_FALSE(LengthTrees::from_xgboost(model).has_value());
}

TEST(LengthLearner, LearnsAgainAndAgainFromTheNewest) {
  LengthLearner learner(length_fit({.rounds = 20}), {.memory = 300, .fewest = 200, .every = 100});
  RandomStream random(4, "test.answers");
  int fits = 0;
  for (int i = 0; i < 400; ++i) {
    const auto one = answer(random);
    learner.observe(one.prompt, one.tokens);
    if (!learner.due()) continue;
    if (fits == 0) {
      EXPECT_EQ(learner.predict(one.prompt), 0) << "nothing is known yet";
    }
    const auto from = learner.begin_fit();
    EXPECT_LE(from.size(), 300U);
    EXPECT_FALSE(learner.due()) << "they are being fitted";
    learner.end_fit(learner.fitting()(from));
    ++fits;
  }
  EXPECT_EQ(fits, 3);
  EXPECT_EQ(learner.counts().fits, 3);
  EXPECT_GT(learner.predict(features_of({}, "write a long essay")), 500);
  learner.observe(features_of({}), 0);
  EXPECT_EQ(learner.counts().answers, 400) << "an answer without a token says nothing";
}

TEST(LengthLearner, KeepsItsTreesWhereAFitFails) {
  const auto first = std::make_shared<const LengthTrees>(grown(answers(100, 5)));
  LengthLearner learner([](auto) { return external_failure("fit", "no"); }, {.fewest = 1}, first);
  const auto prompt = features_of({}, "write a long essay");
  EXPECT_GT(learner.predict(prompt), 0) << "it begins with what it is given";
  learner.observe(prompt, 5);
  ASSERT_TRUE(learner.due());
  learner.end_fit(learner.fitting()(learner.begin_fit()));
  EXPECT_EQ(learner.trees(), first);
  EXPECT_EQ(learner.counts().failed, 1);
}

}  // namespace wattle::learn
