#include "units/time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

namespace wattle {
namespace {

TEST(Span, FactoriesAgreeAboutTheNanosecond) {
  EXPECT_EQ(Span::s(1), Span::ms(1000));
  EXPECT_EQ(Span::ms(1), Span::us(1000));
  EXPECT_EQ(Span::us(1), Span::ns(1000));
  EXPECT_EQ(Span::s(2).seconds(), 2.0);
  EXPECT_EQ(Span::us(1500).millis(), 1.5);
}

TEST(Span, FromSecondsRoundsToTheNearestNanosecond) {
  EXPECT_EQ(Span::from_seconds(1.4e-9), Span::ns(1));
  EXPECT_EQ(Span::from_seconds(1.6e-9), Span::ns(2));
  EXPECT_EQ(Span::from_seconds(-1.6e-9), Span::ns(-2));
  EXPECT_EQ(Span::from_seconds(0.1), Span::ms(100));
}

TEST(Span, FromSecondsEndsWhereTheRangeDoes) {
  EXPECT_EQ(Span::from_seconds(1e10), Span::max());
  EXPECT_EQ(Span::from_seconds(1e308), Span::max());
  EXPECT_EQ(Span::from_seconds(std::numeric_limits<double>::infinity()), Span::max());
  EXPECT_LT(Span::from_seconds(-1e10), Span::s(-9'000'000'000));
  EXPECT_EQ(Span::from_seconds(9e9), Span::s(9'000'000'000));
  EXPECT_EQ(Span::from_seconds(std::nan("")), Span());
}

TEST(Instant, NeverStaysNever) {
  EXPECT_EQ(Instant::never() + Span::s(5), Instant::never());
  EXPECT_EQ(Instant::never() + Span::s(-5), Instant::never());
  EXPECT_EQ(Instant::never() - Span::s(5), Instant::never());
  Instant t = Instant::never();
  t += Span::s(1);
  EXPECT_EQ(t, Instant::never());
  EXPECT_LT(Instant(1) + Span::s(1), Instant::never());
}

TEST(Instant, AdditionSaturatesInsteadOfWrapping) {
  EXPECT_EQ(Instant(1) + Span::max(), Instant::never());
  EXPECT_EQ(Instant(Instant::never().ns() - 1) + Span::ns(2), Instant::never());
  EXPECT_EQ(Instant(1) - Span(-Span::max().ns()), Instant::never());
  EXPECT_LT(Instant(-2) - Span::max(), Instant(0));  // the far past stays the past
  EXPECT_EQ(Instant(0) + Span::max(), Instant::never());
}

RC_GTEST_PROP(Instant, GoingThereAndBackIsExact, ()) {
  const auto t = Instant(*rc::gen::inRange<std::int64_t>(0, 1LL << 61));
  const auto d = Span(*rc::gen::inRange<std::int64_t>(-(1LL << 61), 1LL << 61));
  RC_ASSERT((t + d) - d == t);
  RC_ASSERT((t + d) - t == d);
  RC_ASSERT(((t + d) > t) == (d > Span()));
}

}  // namespace
}  // namespace wattle
