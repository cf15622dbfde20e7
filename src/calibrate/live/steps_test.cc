#include "calibrate/live/steps.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace wattle::calibrate {
namespace {

/// An engine whose step takes 8 ms + 0.1 ms a request + 1 us a KV token; stream i joins at step i / 4 with 50 tokens,
/// and tokens arrive up to `late` later.
struct Engine {
  std::int32_t streams = 12;
  std::int64_t prompt = 100;
  Span late = Span::us(300);
  int stall_every = 0;  ///< every so many steps the client reads nothing for 15 ms

  [[nodiscard]] static Span step(std::int64_t requests, std::int64_t kv) {
    return Span::us(8'000 + 100 * requests + kv);
  }
  [[nodiscard]] std::vector<StreamRecord> run() const {
    std::vector<StreamRecord> all(static_cast<std::size_t>(streams));
    RandomStream random(1, "steps");
    Instant now = Instant() + Span::s(1);
    for (auto& s : all) s.prompt_tokens = prompt;
    for (int k = 0; k < 80; ++k) {
      std::int64_t decoding = 0, kv = 0;
      for (const auto& s : all) {
        if (s.tokens.empty() || s.tokens.size() >= 50) continue;
        ++decoding;
        kv += prompt + std::ssize(s.tokens) - 1;
      }
      now += step(decoding, kv) + (k < streams / 4 ? Span::ms(40) : Span());  // prompts in the step
      const Span stall = stall_every > 0 && k % stall_every == 0 ? Span::ms(15) : Span();
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (static_cast<int>(i) / 4 > k || all[i].tokens.size() >= 50) continue;
        Instant at = now + stall + Span(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(late.ns()))));
        if (!all[i].tokens.empty()) at = std::max(at, all[i].tokens.back());
        all[i].tokens.push_back(at);
      }
    }
    return all;
  }
};

TEST(Steps, StreamsThatJoinLateGiveTheStepsTheyShare) {
  const Engine engine;
  const auto run = find_lockstep(engine.run());
  ASSERT_TRUE(run);
  EXPECT_EQ(run->requests, 12);
  // The last four join with step 2, when the first four have their third token and the second four their second.
  EXPECT_EQ(run->kv_first, 12 * 100 + 4 * 2 + 4 * 1);
  EXPECT_EQ(run->at.size(), 48U) << "until the first ones end";
  EXPECT_DOUBLE_EQ(run->together, 1.0);
  const auto parts = stretches(*run, 4, 8);
  ASSERT_EQ(parts.size(), 4U);
  for (const auto& part : parts) {
    const Span truth = Engine::step(12, part.kv_tokens);
    EXPECT_NEAR(part.step.seconds() / truth.seconds(), 1.0, 0.01);
  }
  EXPECT_EQ(parts.back().end, run->at.back());
}

TEST(Steps, AClientThatSleepsNowAndThenMovesTheMedianLittle) {
  Engine engine;
  engine.stall_every = 7;
  const auto run = find_lockstep(engine.run());
  ASSERT_TRUE(run);
  EXPECT_EQ(run->kv_first, 12 * 100 + 12) << "a token read late is still of its step";
  for (const auto& part : stretches(*run, 2, 8)) {
    EXPECT_NEAR(part.step.seconds() / Engine::step(12, part.kv_tokens).seconds(), 1.0, 0.03);
  }
}

TEST(Steps, StreamsThatDoNotAdvanceTogetherAreSeen) {
  std::vector<StreamRecord> streams(8);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    for (int j = 0; j < 50; ++j) {
      streams[i].tokens.push_back(Instant() + Span::us((9'000 + 150 * static_cast<std::int64_t>(i)) * j));
    }
  }
  const auto run = find_lockstep(streams);
  EXPECT_TRUE(!run || run->together < 0.9) << run->together;
}

TEST(Steps, NothingInCommonIsNone) {
  EXPECT_FALSE(find_lockstep({}));
  std::vector<StreamRecord> two(2);
  two[0].tokens = {Instant(1), Instant(2), Instant(3)};
  two[1].tokens = {Instant(1'000'000'000)};
  EXPECT_FALSE(find_lockstep(two));
  two[1].tokens.push_back(Instant(1'010'000'000));
  EXPECT_FALSE(find_lockstep(two)) << "the first had ended when the second began";
}

TEST(Steps, PromptsThatCameTogetherAreOneStep) {
  const auto at = [](std::int64_t us) { return Instant() + Span::us(us); };
  std::vector<StreamRecord> all(4);
  // Two at once on an idle engine; one that waited for them; one alone later.
  all[0] = {at(0), {at(50'000)}, 100, -1, 1, ""};
  all[1] = {at(100), {at(50'200)}, 200, -1, 1, ""};
  all[2] = {at(10'000), {at(90'000)}, 300, -1, 1, ""};
  all[3] = {at(200'000), {at(230'000)}, 400, -1, 1, ""};
  const auto steps = prompt_steps(all, Span::ms(1));
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].requests, 2);
  EXPECT_EQ(steps[0].tokens, 300);
  EXPECT_EQ(steps[0].begin, at(1'000));
  EXPECT_EQ(steps[0].end, at(50'200));
  EXPECT_EQ(steps[1].begin, at(50'200)) << "it waited: no way to subtract";
  EXPECT_EQ(steps[2].end - steps[2].begin, Span::ms(29));
}

TEST(Steps, PromptTokensFromACacheAreContext) {
  std::vector<StreamRecord> all(1);
  all[0].sent = Instant() + Span::ms(10);
  all[0].tokens = {Instant() + Span::ms(30)};
  all[0].prompt_tokens = 4'352;
  all[0].cached_tokens = 4'096;
  const auto steps = prompt_steps(all, Span());
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].tokens, 256);
  EXPECT_EQ(steps[0].context_tokens, 4'096);
}

}  // namespace
}  // namespace wattle::calibrate
