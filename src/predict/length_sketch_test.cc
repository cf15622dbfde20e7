#include "predict/length_sketch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace wattle::predict::length_sketch_test {
namespace {

Request request(std::int32_t prompt, std::int32_t tenant = 0) {
  Request r;
  r.prompt_tokens = prompt;
  r.tenant = TenantId(tenant);
  r.max_tokens = 4096;
  return r;
}

/// Half a bucket: 1/32 of the length, and one for the rounding of small ones.
bool close(std::int32_t sketched, std::int32_t truth) {
  return std::abs(sketched - truth) <= static_cast<double>(truth) / 32.0 + 1.0;
}

RC_GTEST_PROP(LengthSketchProperty, QuantilesAreThoseOfTheSortedLengths, ()) {
  auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1 << 20)));
  LengthSketch sketch;
  for (const int length : lengths) sketch.add(length);
  std::ranges::sort(lengths);
  const double q = 0.01 * *rc::gen::inRange(0, 101);
  const auto wanted =
      std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(q * static_cast<double>(lengths.size()))));
  RC_ASSERT(close(sketch.quantile(q), lengths[wanted - 1]));
  RC_ASSERT(sketch.count() == lengths.size());
}

RC_GTEST_PROP(LengthSketchProperty, TheRestIsThatOfThoseWhoGoOn, ()) {
  // Below 16 buckets are exact, so that "longer than" is too.
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 16)));
  const int produced = *rc::gen::inRange(0, 16);
  LengthSketch sketch;
  for (const int length : lengths) sketch.add(length);
  std::vector<int> longer;
  std::ranges::copy_if(lengths, std::back_inserter(longer), [&](int length) { return length > produced; });
  std::ranges::sort(longer);
  RC_ASSERT(sketch.count(produced) == longer.size());
  RC_ASSERT(sketch.quantile(0.5, produced) == (longer.empty() ? 0 : longer[(longer.size() + 1) / 2 - 1]));
}

RC_GTEST_PROP(LengthSketchProperty, ConditionalQuantilesExceedWhatWasProduced, ()) {
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1 << 20)));
  const int produced = *rc::gen::inRange(0, 1 << 20);
  LengthSketch sketch;
  for (const int length : lengths) sketch.add(length);
  const auto median = sketch.quantile(0.5, produced);
  RC_ASSERT(median == 0 || median > produced);
}

TEST(LengthSketch, NonsenseIsClampedAndOldLengthsFade) {
  LengthSketch sketch;
  EXPECT_EQ(sketch.quantile(0.5), 0);
  sketch.add(-5);
  sketch.add(2'000'000'000);
  EXPECT_EQ(sketch.quantile(0.0), 1);
  EXPECT_TRUE(close(sketch.quantile(1.0), 1 << 20));
  for (int i = 0; i < 20'000; ++i) sketch.add(100);
  EXPECT_LT(sketch.count(), LengthSketch::kMemory);
  for (int i = 0; i < 8'192; ++i) sketch.add(10);
  EXPECT_EQ(sketch.quantile(0.5), 10);
}

TEST(LengthSketches, AskTheNarrowestThatKnowsEnough) {
  LengthSketches sketches;
  EXPECT_EQ(sketches.quantile(request(100), 0.5, 0), 0);
  for (int i = 0; i < 40; ++i) sketches.add(request(100, 1), 10);
  EXPECT_EQ(sketches.quantile(request(5'000, 9), 0.5, 0), 10) << "another prompt length: all there is";
  for (int i = 0; i < 40; ++i) sketches.add(request(5'000, 2), 15);
  EXPECT_EQ(sketches.quantile(request(5'000, 9), 0.5, 0), 15) << "an unknown tenant: its prompt length";
  for (int i = 0; i < 40; ++i) sketches.add(request(5'000, 9), 12);
  EXPECT_EQ(sketches.quantile(request(5'000, 9), 0.5, 0), 12) << "the tenant's own";
  EXPECT_EQ(sketches.quantile(request(5'000, 9), 0.5, 12), 15) << "none of its own went on so long";
}

TEST(LengthSketches, HostileTenantsCostNoMemory) {
  LengthSketches sketches;
  constexpr int kLast = 4'999;
  static_assert(kLast > static_cast<int>(LengthSketches::kMostTenantSketches));
  for (int tenant = 0; tenant <= kLast; ++tenant) sketches.add(request(100, tenant), 7);
  for (const int tenant : {0, kLast}) {
    for (int i = 0; i < 40; ++i) sketches.add(request(100, tenant), 12);
  }
  EXPECT_EQ(sketches.quantile(request(100, 0), 0.5, 0), 12);
  EXPECT_EQ(sketches.quantile(request(100, kLast), 0.5, 0), 7) << "it has no sketch of its own: all tenants'";
}

}  // namespace
}  // namespace wattle::predict::length_sketch_test
