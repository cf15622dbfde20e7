#include "policy/frequency/recent_spans.h"

#include <gtest/gtest.h>

namespace wattle::policy {
namespace {

TEST(RecentSpans, AShareOfThemLiesBeyond) {
  RecentSpans spans(100);
  for (int i = 100; i >= 1; --i) spans.add(Span::ms(i));
  EXPECT_EQ(spans.most(0.0, Span()), Span::ms(1));
  EXPECT_EQ(spans.most(0.05, Span()), Span::ms(6)) << "five are shorter";
  EXPECT_EQ(spans.most(0.05, Span::ms(6)), Span::ms(6));
  EXPECT_EQ(spans.most(0.05, Span::ms(31)), Span::ms(31)) << "thirty are shorter anyway";
  EXPECT_EQ(spans.most(0.05, Span::ms(101)), Span::max()) << "nothing can be lost";
  EXPECT_EQ(spans.least(0.0, Span::ms(100)), Span::ms(100));
  EXPECT_EQ(spans.least(0.05, Span::ms(100)), Span::ms(95)) << "five are longer";
  EXPECT_EQ(spans.least(0.05, Span::ms(70)), Span::ms(70)) << "thirty are longer anyway";
  EXPECT_EQ(spans.least(0.05, Span()), Span());
}

TEST(RecentSpans, TheOldestAreForgotten) {
  RecentSpans spans(3);
  for (const int ms : {9, 1, 5, 4, 4}) spans.add(Span::ms(ms));  // 9 and 1 are gone
  const Span any = Span::s(1);
  EXPECT_EQ(spans.most(0.0, Span()), Span::ms(4));
  EXPECT_EQ(spans.least(0.0, any), Span::ms(5));
  spans.add(Span::ms(2));  // 5 is
  EXPECT_EQ(spans.least(0.0, any), Span::ms(4));
  EXPECT_EQ(spans.most(0.34, Span()), Span::ms(4)) << "one of three is shorter";
}

TEST(RecentSpans, AllAreScaled) {
  RecentSpans spans(2);
  for (const int ms : {9, 4}) spans.add(Span::ms(ms));
  spans.scale(0.5);
  EXPECT_EQ(spans.most(0.0, Span()), Span::ms(2));
  spans.add(Span::ms(1));  // 4.5 is gone
  EXPECT_EQ(spans.least(0.0, Span::s(1)), Span::ms(2));
}

}  // namespace
}  // namespace wattle::policy
