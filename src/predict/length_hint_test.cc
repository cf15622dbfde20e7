#include "predict/length_hint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

namespace wattle::predict {
namespace {

TEST(LengthOracle, WithoutErrorIsTheTruthWithinTheCap) {
  LengthOracle oracle(0.0, 1);
  EXPECT_EQ(oracle.predict(123, 1000), 123);
  EXPECT_EQ(oracle.predict(1, 1000), 1);
  EXPECT_EQ(oracle.predict(2000, 1000), 1000);
  EXPECT_EQ(oracle.predict(0, 0), 1);
}

TEST(LengthOracle, NinetyFivePercentAreWithinTheStatedError) {
  for (const double p95 : {0.15, 0.30}) {
    LengthOracle oracle(p95, 7);
    constexpr int kDraws = 20'000;
    int within = 0;
    double sum = 0.0;
    for (int i = 0; i < kDraws; ++i) {
      const int predicted = oracle.predict(10'000, 1'000'000);
      within += std::abs(predicted - 10'000) <= 10'000 * p95 ? 1 : 0;
      sum += predicted;
    }
    EXPECT_NEAR(within, 0.95 * kDraws, 4.0 * std::sqrt(kDraws * 0.95 * 0.05));
    EXPECT_NEAR(sum / kDraws, 10'000.0, 4.0 * 10'000.0 * p95 / 1.96 / std::sqrt(kDraws));
  }
}

TEST(LengthOracle, NeverBelowOneToken) {
  LengthOracle oracle(10.0, 3);
  for (int i = 0; i < 1000; ++i) {
    const int predicted = oracle.predict(5, 100);
    EXPECT_GE(predicted, 1);
    EXPECT_LE(predicted, 100);
  }
}

TEST(LengthClasses, ErrsAsOftenAsMeasured) {
  for (const auto& [truth, tokens] :
       {std::pair(0, 20), std::pair(1, 100), std::pair(2, 200), std::pair(3, 400), std::pair(4, 800)}) {
    ASSERT_EQ(LengthClasses::class_of(tokens), truth);
    LengthClasses classes(0.5, 5);
    std::map<std::int32_t, int> said;
    constexpr int kDraws = 20'000;
    for (int i = 0; i < kDraws; ++i) ++said[classes.predict(tokens, 4'096)];
    ASSERT_EQ(said.size(), 5U);  // the medians ascend with the class
    int predicted = 0;
    int sum = 0;
    for (const auto& [length, count] : said) {
      const double share = LengthClasses::per_mille(truth, predicted) / 1000.0;
      EXPECT_NEAR(count, kDraws * share, 5.0 * std::sqrt(kDraws * share)) << truth << " " << length;
      sum += LengthClasses::per_mille(truth, predicted++);
    }
    EXPECT_EQ(sum, 1000);
  }
}

TEST(LengthClasses, BordersAndCaps) {
  EXPECT_EQ(LengthClasses::class_of(0), 0);
  EXPECT_EQ(LengthClasses::class_of(42), 0);
  EXPECT_EQ(LengthClasses::class_of(43), 1);
  EXPECT_EQ(LengthClasses::class_of(503), 3);
  EXPECT_EQ(LengthClasses::class_of(504), 4);
  LengthClasses classes(0.9, 1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(classes.predict(300, 0), 1);
    EXPECT_LE(classes.predict(300, 50), 50);
  }
}

}  // namespace
}  // namespace wattle::predict
