#include "units/quantity.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace wattle {
namespace {

TEST(Quantity, SameDimensionArithmetic) {
  EXPECT_EQ(Watts(300) + Watts(100), Watts(400));
  EXPECT_EQ(Watts(300) - Watts(100), Watts(200));
  EXPECT_EQ(Joules(3) * 2.0, Joules(6));
  EXPECT_EQ(Joules(3) / Joules(2), 1.5);
  EXPECT_LT(Watts(1), Watts(2));
}

TEST(Milliwatts, RoundToTheNearest) {
  EXPECT_EQ(to_milliwatts(Watts(0.0004)), Milliwatts(0));
  EXPECT_EQ(to_milliwatts(Watts(0.0006)), Milliwatts(1));
  EXPECT_EQ(to_milliwatts(Watts(-0.0006)), Milliwatts(-1));
  EXPECT_EQ(to_milliwatts(Watts(412.345)), Milliwatts(412'345));
  EXPECT_DOUBLE_EQ(to_watts(Milliwatts(412'345)).value(), 412.345);
}

RC_GTEST_PROP(Milliwatts, SurviveTheWayThroughWatts, ()) {
  const Milliwatts p(*rc::gen::inRange<std::int64_t>(-10'000'000'000, 10'000'000'000));
  RC_ASSERT(to_milliwatts(to_watts(p)) == p);
}

TEST(Picojoules, OneMilliwattForOneNanosecondIsOne) {
  EXPECT_EQ(energy_over(Milliwatts(1), Span::ns(1)), Picojoules(1));
  EXPECT_DOUBLE_EQ(energy_over(Milliwatts(400'000), Span::s(1)).joules().value(), 400.0);
}

TEST(Picojoules, AFleetYearDoesNotOverflow) {
  // 1 MW over 365 days: 3.2e25 pJ, far beyond 64 bits.
  const Picojoules year = energy_over(Milliwatts(1'000'000'000), Span::s(365LL * 86'400));
  EXPECT_DOUBLE_EQ(year.joules().value(), 1e6 * 365 * 86'400);
  EXPECT_EQ(year, energy_over(Milliwatts(1'000'000'000), Span::s(86'400)) * 365);
}

RC_GTEST_PROP(Picojoules, SumsDoNotDependOnOrderOrGrouping, (std::uint64_t seed)) {
  auto powers =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 700'000'000)));
  std::vector<Picojoules> steps;
  for (std::size_t i = 0; i < powers.size(); ++i) {
    steps.push_back(
        energy_over(Milliwatts(powers[i]), Span(static_cast<std::int64_t>((seed >> (i % 40)) & 0xffffffff))));
  }
  const Picojoules forward = std::accumulate(steps.begin(), steps.end(), Picojoules());
  const Picojoules backward = std::accumulate(steps.rbegin(), steps.rend(), Picojoules());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  const Picojoules halves =
      std::accumulate(steps.begin(), middle, Picojoules()) + std::accumulate(middle, steps.end(), Picojoules());
  RC_ASSERT(forward == backward);
  RC_ASSERT(forward == halves);
}

RC_GTEST_PROP(Picojoules, ASpanCutAnywhereHasTheSameEnergy, ()) {
  const Milliwatts p(*rc::gen::inRange<std::int64_t>(0, 10'000'000));
  const auto whole = *rc::gen::inRange<std::int64_t>(1, 1LL << 50);
  const auto cut = *rc::gen::inRange<std::int64_t>(0, whole);
  RC_ASSERT(energy_over(p, Span(cut)) + energy_over(p, Span(whole - cut)) == energy_over(p, Span(whole)));
}

RC_GTEST_PROP(Picojoules, ManyEqualStepsAreOneProduct, ()) {
  const Picojoules step = energy_over(Milliwatts(*rc::gen::inRange<std::int64_t>(0, 10'000'000)),
                                      Span(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000)));
  const int n = *rc::gen::inRange(0, 500);
  Picojoules sum;
  for (int i = 0; i < n; ++i) sum += step;
  RC_ASSERT(sum == step * n);
}

}  // namespace
}  // namespace wattle
