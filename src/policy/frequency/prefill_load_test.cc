#include "policy/frequency/prefill_load.h"

#include <gtest/gtest.h>

namespace wattle::policy {
namespace {

constexpr MegaHertz kSlower{600};
constexpr MegaHertz kFaster{1200};
const std::vector<MegaHertz> kBoth{kSlower, kFaster};

/// 0.1 ms for each token at the high clock, twice that at the low one.
class TimePerToken final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    return Span::us(100 * shape.prefill_tokens * (clock == kFaster ? 1 : 2));
  }
};

/// The clock after a prompt of 1,000 tokens every `every` for `lasting`.
MegaHertz after(PrefillLoad& load, Instant& now, Span every, Span lasting) {
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_tokens = 1'000;
  for (const Instant end = now + lasting; now < end; now += every) {
    load.note(shape, now, now);
    load.note(shape, now, now + Span::ms(1));  // the same step, reported again
  }
  return load.least(now);
}

TEST(PrefillLoad, TheLowestClockAtWhichPromptsTakeLessTimeThanPasses) {
  const TimePerToken steps;
  PrefillLoad load(kBoth, steps);
  Instant now = Instant{} + Span::s(1'000);
  EXPECT_EQ(after(load, now, Span::ms(210), Span::s(200)), kSlower) << "200 ms each";
  EXPECT_EQ(after(load, now, Span::ms(190), Span::s(200)), kFaster);
  EXPECT_EQ(after(load, now, Span::ms(50), Span::s(200)), kFaster) << "no clock carries it";
  EXPECT_EQ(after(load, now, Span::ms(400), Span::s(200)), kSlower)
      << "what was more than two minutes ago is forgotten";
}

TEST(PrefillLoad, TakesAsManyClocksAsAGpuHas) {
  const TimePerToken steps;
  std::vector<MegaHertz> clocks;
  for (int mhz = 300; mhz < 1'200; mhz += 5) clocks.emplace_back(mhz);
  clocks.push_back(kFaster);
  PrefillLoad load(clocks, steps);
  Instant now = Instant{} + Span::s(1'000);
  EXPECT_EQ(after(load, now, Span::ms(210), Span::s(200)), MegaHertz{300});
  EXPECT_EQ(after(load, now, Span::ms(190), Span::s(200)), kFaster);
}

TEST(PrefillLoad, TheFirstPromptGetsTheHighestClock) {
  const TimePerToken steps;
  PrefillLoad load(kBoth, steps);
  Instant now = Instant{} + Span::s(1'000);
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_tokens = 1'000;
  load.note(shape, now, now);
  EXPECT_EQ(load.least(now), kFaster) << "no time has passed yet";
  EXPECT_EQ(load.least(now + Span::s(1)), kSlower);
}

}  // namespace
}  // namespace wattle::policy
