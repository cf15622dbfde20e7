#include "base/histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace wattle {
namespace {

// Values of every magnitude: uniform bits would almost all be huge.
rc::Gen<std::int64_t> any_value() {
  return rc::gen::map(rc::gen::pair(rc::gen::inRange<std::uint64_t>(0, 1ULL << 62U), rc::gen::inRange(0, 62)),
                      [](const auto& p) { return static_cast<std::int64_t>(p.first >> p.second); });
}

Histogram of(const std::vector<std::int64_t>& values) {
  Histogram h;
  for (const std::int64_t v : values) h.add(v);
  return h;
}

std::vector<std::pair<std::int64_t, std::int64_t>> buckets(const Histogram& h) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  h.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) { out.emplace_back(upper, seen); });
  return out;
}

TEST(Histogram, EmptyHasNothingToSay) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0);
  EXPECT_EQ(h.max(), 0);
  EXPECT_EQ(h.mean(), 0.0);
  EXPECT_EQ(h.quantile(0.5), 0);
  EXPECT_TRUE(buckets(h).empty());
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram h;
  for (std::int64_t v = 1; v <= 100; ++v) h.add(v);
  EXPECT_EQ(h.quantile(0.0), 1);
  EXPECT_EQ(h.quantile(0.5), 50);
  EXPECT_EQ(h.quantile(0.75), 75);
  EXPECT_EQ(h.quantile(1.0), 100);
  EXPECT_EQ(h.mean(), 50.5);
}

TEST(Histogram, LargestRepresentableValueHasABucket) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Histogram::upper(Histogram::index(kMax)), kMax);
  Histogram h;
  h.add(kMax);
  EXPECT_EQ(h.max(), kMax);
  EXPECT_NEAR(static_cast<double>(h.quantile(1.0)), static_cast<double>(kMax), 0.004 * static_cast<double>(kMax));
}

TEST(Histogram, NegativeValuesCountAsZeroInEveryStatistic) {
  Histogram h;
  h.add(-5);
  h.add(10);
  EXPECT_EQ(h.count(), 2);
  EXPECT_EQ(h.mean(), 5.0);
  EXPECT_EQ(h.quantile(0.5), 0);
}

TEST(Histogram, SumIsExactBeyondTheMantissaOfADouble) {
  // 3e9 values of 2^33 + 1: a double sum would have lost the ones.
  constexpr std::int64_t kValue = (1LL << 33) + 1;
  constexpr std::int64_t kCount = 3'000'000'000;
  Histogram h;
  h.add(kValue, kCount);
  EXPECT_EQ(h.sum(), Int128{kValue} * kCount);
}

RC_GTEST_PROP(Histogram, EveryValueLiesInItsBucket, ()) {
  const std::int64_t v = *any_value();
  const std::size_t i = Histogram::index(v);
  RC_ASSERT(v <= Histogram::upper(i));
  if (i > 0) RC_ASSERT(v > Histogram::upper(i - 1));
}

RC_GTEST_PROP(Histogram, QuantilesAreWithinTheStatedErrorOfTheExactOnes, ()) {
  auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(any_value()));
  const Histogram h = of(values);
  std::sort(values.begin(), values.end());
  const auto n = static_cast<std::int64_t>(values.size());
  for (std::int64_t k = 0; k <= 16; ++k) {  // sixteenths, so that q * n is exact and the rank beyond dispute
    const std::int64_t rank = std::max<std::int64_t>(1, (k * n + 15) / 16);
    const std::int64_t exact = values[static_cast<std::size_t>(rank - 1)];
    const std::int64_t got = h.quantile(static_cast<double>(k) / 16.0);
    RC_ASSERT(std::abs(got - exact) <= exact / 250);  // 0.4 %
  }
  RC_ASSERT(h.max() == values.back());
  RC_ASSERT(h.quantile(1.0) <= h.max());
}

RC_GTEST_PROP(Histogram, MergeEqualsAddingEverythingToOne, ()) {
  const auto a = *rc::gen::container<std::vector<std::int64_t>>(any_value());
  const auto b = *rc::gen::container<std::vector<std::int64_t>>(any_value());
  Histogram merged = of(a);
  merged.merge(of(b));
  auto all = a;
  all.insert(all.end(), b.begin(), b.end());
  const Histogram together = of(all);
  RC_ASSERT(merged.count() == together.count());
  RC_ASSERT(merged.sum() == together.sum());
  RC_ASSERT(merged.max() == together.max());
  RC_ASSERT(buckets(merged) == buckets(together));
}

RC_GTEST_PROP(Histogram, ACountIsThatManyAdditions, ()) {
  const std::int64_t v = *any_value();
  const int n = *rc::gen::inRange(1, 50);
  Histogram once;
  once.add(v, n);
  const Histogram singly = of(std::vector<std::int64_t>(static_cast<std::size_t>(n), v));
  RC_ASSERT(once.sum() == singly.sum());
  RC_ASSERT(once.count() == singly.count());
  RC_ASSERT(buckets(once) == buckets(singly));
}

RC_GTEST_PROP(Histogram, CumulativeBucketsEndAtTheCount, ()) {
  const auto values = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(any_value()));
  const auto all = buckets(of(values));
  RC_ASSERT(all.back().second == static_cast<std::int64_t>(values.size()));
  RC_ASSERT(std::is_sorted(all.begin(), all.end()));
}

}  // namespace
}  // namespace wattle
