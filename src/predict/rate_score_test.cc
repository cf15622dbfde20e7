#include "predict/rate_score.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace wattle::predict {
namespace {

/// One millisecond per request, times a factor.
class Factor final : public LatencyModel {
 public:
  explicit Factor(double factor) : factor_(factor) {}
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz) const override {
    return Span::from_seconds(1e-3 * shape.decode_requests * factor_);
  }

 private:
  double factor_;
};

std::vector<StepSample> samples() {
  std::vector<StepSample> all;
  for (std::int32_t n = 1; n <= 100; ++n) {
    StepShape shape;
    shape.decode_requests = n;
    all.push_back({MegaHertz{1000}, shape, Span::ms(n)});
  }
  return all;
}

TEST(RateScore, TruthIsPerfect) {
  const auto score = score_rate(Factor(1.0), samples());
  EXPECT_EQ(score.samples, 100);
  EXPECT_DOUBLE_EQ(score.r2, 1.0);
  EXPECT_DOUBLE_EQ(score.mape, 0.0);
  EXPECT_DOUBLE_EQ(score.mae, 0.0);
}

TEST(RateScore, AModelThatIsTwiceTooSlowHalvesTheRate) {
  const auto score = score_rate(Factor(2.0), samples());
  EXPECT_NEAR(score.mape, 0.5, 1e-9);
  EXPECT_NEAR(score.mae, 0.5 * 51.87377517639621, 1e-6);  // half of the mean of 1000 / n
  EXPECT_LT(score.r2, 0.97);
}

TEST(RateScore, NonsenseCountsAsStandstillAndEmptyTimesAreLeftOut) {
  auto some = samples();
  some.push_back({MegaHertz{1000}, StepShape{}, Span()});
  const auto score = score_rate(Factor(0.0), some);
  EXPECT_EQ(score.samples, 100);
  EXPECT_DOUBLE_EQ(score.mape, 1.0);
  EXPECT_EQ(score_rate(Factor(1.0), {}).samples, 0);
}

TEST(RateScore, ASplitLosesAndRepeatsNothing) {
  const auto all = samples();
  for (const double share : {0.0, 0.1, 0.9, 1.0}) {
    auto [first, second] = split_samples(all, share, 7);
    EXPECT_EQ(first.size(), static_cast<std::size_t>(share * 100.0 + 0.5));
    std::vector<std::int32_t> seen;
    for (const auto* part : {&first, &second}) {
      for (const auto& s : *part) seen.push_back(s.shape.decode_requests);
    }
    EXPECT_FALSE(std::ranges::is_sorted(seen)) << "at random";
    std::ranges::sort(seen);
    ASSERT_EQ(seen.size(), 100U);
    for (std::int32_t n = 1; n <= 100; ++n) EXPECT_EQ(seen[static_cast<std::size_t>(n - 1)], n);
  }
}

}  // namespace
}  // namespace wattle::predict
