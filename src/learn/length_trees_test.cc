#include "learn/length_trees.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/random.h"

namespace wattle::learn {

namespace {
struct Answer {
  predict::PromptFeatures prompt;
  std::int32_t tokens = 0;
};

/// The ask decides how long the answer becomes, or, with `blind`, chance does.
Answer answer(RandomStream& random, bool blind) {
  constexpr std::array<const char*, 4> kAsks = {"answer yes or no", "summarise in one sentence", "explain step by step",
                                                "write a long essay"};
  constexpr std::array<int, 4> kTokens = {3, 40, 300, 900};
  const std::size_t ask = random.below(4);
  std::string prompt = kAsks[ask];
  for (std::size_t w = random.below(30); w > 0; --w) prompt += fmt::format(" filler{}", random.below(50));
  const std::size_t length = blind ? random.below(4) : ask;
  const double spread = std::exp(0.2 * random.normal());
  return {predict::features_of(prompt, 0), static_cast<std::int32_t>(std::lround(kTokens[length] * spread))};
}

LengthTreesOptions quick() { return {.memory = 600, .fewest = 200, .every = 300, .rounds = 30}; }

void live(LengthTrees& trees, std::uint64_t seed, bool blind, int answers) {
  RandomStream random(seed, "test.answers");
  for (int i = 0; i < answers; ++i) {
    const Answer one = answer(random, blind);
    trees.observe(one.prompt, one.tokens);
    if (trees.due()) {
      ASSERT_TRUE(trees.learn().has_value());
    }
  }
}
}  // namespace

TEST(LengthTrees, LearnTheAskFromTraffic) {
  LengthTrees trees(quick());
  EXPECT_EQ(trees.predict(predict::features_of("write a long essay", 0)), 0.0);
  EXPECT_FALSE(trees.learn().has_value());
  live(trees, 1, false, 800);
  EXPECT_LT(trees.score().trees, 0.5 * trees.score().median);
  EXPECT_GT(trees.predict(predict::features_of("write a long essay", 0)), 500.0);
  EXPECT_LT(trees.predict(predict::features_of("answer yes or no", 0)), 20.0);
}

TEST(LengthTrees, AreNotBelievedWhereTheMedianDoesAsWell) {
  LengthTrees trees(quick());
  live(trees, 2, true, 700);
  EXPECT_GT(trees.score().scored, 400);
  EXPECT_GE(trees.score().trees, 0.97 * trees.score().median);  // there is nothing to learn
  if (trees.score().trees >= trees.score().median) {
    EXPECT_EQ(trees.predict(predict::features_of("write a long essay", 0)), 0.0);
  }
}

TEST(LengthTrees, EqualTrafficGivesEqualTrees) {
  LengthTrees one(quick());
  LengthTrees two(quick());
  live(one, 3, false, 300);
  live(two, 3, false, 300);
  const auto prompt = predict::features_of("explain step by step why", 0);
  EXPECT_EQ(one.predict(prompt), two.predict(prompt));
  EXPECT_GT(one.predict(prompt), 0.0);
}

}  // namespace wattle::learn
