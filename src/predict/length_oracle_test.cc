#include "predict/length_oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

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

}  // namespace
}  // namespace wattle::predict
