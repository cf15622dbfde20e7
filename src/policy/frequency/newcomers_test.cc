#include "policy/frequency/newcomers.h"

#include <gtest/gtest.h>

namespace wattle::policy {
namespace {

constexpr MegaHertz kLow{500};
constexpr MegaHertz kHigh{1000};

/// 0.1 ms a prompt token at the high clock, twice that at the low one; decodes take 50 ms.
class Prompts final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const Span prompts = Span::us(100 * shape.prefill_tokens * kHigh.value() / clock.value());
    return shape.decode_requests > 0 ? prompts + Span::ms(50) : prompts;
  }
};

StepShape prompt(std::int64_t tokens, std::int32_t decodes = 0) {
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_tokens = tokens;
  shape.decode_requests = decodes;
  return shape;
}

ClockRule within(Span ttft) {
  ClockRule rule;
  rule.clocks = {kLow, kHigh};
  rule.ttft = ttft;
  return rule;
}

TEST(Newcomers, AStepLeavesTimeForThePromptThatFollows) {
  Newcomers newcomers(0.1);
  EXPECT_EQ(newcomers.budget(Span::ms(100), Span::ms(5)), Span::max()) << "none are known";
  for (int i = 0; i < 100; ++i) newcomers.note(prompt(300), Span::ms(30));
  // Of the requests that arrive in a step of d with 70 ms left, a share 1 - 70 / d is late: a tenth at 77.8 ms.
  EXPECT_NEAR(newcomers.budget(Span::ms(100), Span::ms(5)).millis(), 70.0 / 0.9, 1e-3);
  // Requests that would be late at the highest clock, too, one eighth, do not count.
  EXPECT_NEAR(newcomers.budget(Span::ms(100), Span::ms(80)).millis(), 70.0 / (0.875 - 0.1), 1e-3);
  EXPECT_EQ(newcomers.budget(Span::ms(30), Span::ms(5)), Span::max()) << "late whatever this step does";
}

TEST(Newcomers, FewLongPromptsHoldUpFewWhoCome) {
  Newcomers newcomers(0.1);
  for (int i = 0; i < 92; ++i) newcomers.note(prompt(100), Span::ms(10));
  for (int i = 0; i < 8; ++i) newcomers.note(prompt(900), Span::ms(90));
  EXPECT_GT(newcomers.budget(Span::ms(100), Span::ms(5)), Span::ms(90)) << "of 100 eight may be late at worst";
  for (int i = 0; i < 400; ++i) newcomers.note(prompt(900), Span::ms(90));
  EXPECT_LT(newcomers.budget(Span::ms(100), Span::ms(5)), Span::ms(13));
}

TEST(Newcomers, AnIdleGpuIsReadyForThePromptsThatCome) {
  const Prompts model;
  Newcomers newcomers(0.1);
  Instant now;
  EXPECT_EQ(newcomers.idle_clock(within(Span::ms(50)), model, now), kLow) << "none are known";
  for (int i = 0; i < 100; ++i) newcomers.note(prompt(200, 8), Span::ms(20));
  EXPECT_EQ(newcomers.idle_clock(within(Span::ms(50)), model, now), kLow) << "40 ms, as no decodes will be there";
  for (int i = 0; i < 20; ++i) newcomers.note(prompt(300), Span::ms(30));
  EXPECT_EQ(newcomers.idle_clock(within(Span::ms(50)), model, now), kLow) << "looked at a moment ago";
  now += Span::s(1);
  EXPECT_EQ(newcomers.idle_clock(within(Span::ms(50)), model, now), kHigh) << "a sixth take 60 ms at the low clock";
  now += Span::s(1);
  EXPECT_EQ(newcomers.idle_clock(within(Span::ms(25)), model, now), kHigh);
  now += Span::s(1);
  EXPECT_EQ(newcomers.idle_clock(within(Span::ms(15)), model, now), kLow) << "late at any clock";
  for (int i = 0; i < 512; ++i) newcomers.note(prompt(200), Span::ms(20));
  now += Span::s(1);
  EXPECT_EQ(newcomers.idle_clock(within(Span::ms(50)), model, now), kLow)
      << "the long ones are no more among the newest";
}

}  // namespace
}  // namespace wattle::policy
