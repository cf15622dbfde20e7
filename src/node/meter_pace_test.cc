#include "node/meter_pace.h"

#include <gtest/gtest.h>

namespace wattle::node {
namespace {

TEST(MeterPace, ReadsOftenWhileEnginesWorkOrPowerMoves) {
  MeterPace pace(Span::ms(5));
  Instant now = Instant() + Span::s(1);
  EXPECT_EQ(pace.pause(now), MeterPace::kIdle);
  pace.worked(now);
  EXPECT_EQ(pace.pause(now), Span::ms(5));
  EXPECT_EQ(pace.pause(now + Span::ms(1999)), Span::ms(5));
  EXPECT_EQ(pace.pause(now + Span::s(2)), MeterPace::kIdle);

  now = now + Span::s(10);
  pace.read(Milliwatts(70'000), Milliwatts(72'000), now);  // an idle GPU's noise
  EXPECT_TRUE(pace.idle(now));
  pace.read(Milliwatts(70'000), Milliwatts(180'000), now);  // an engine that reports nothing
  EXPECT_FALSE(pace.idle(now));
  EXPECT_TRUE(pace.idle(now + MeterPace::kStaysBusy));
}

TEST(MeterPace, NeverReadsMoreOftenBecauseItIsIdle) {
  EXPECT_EQ(MeterPace(Span::s(1)).pause(Instant() + Span::s(1)), Span::s(1));
}

}  // namespace
}  // namespace wattle::node
