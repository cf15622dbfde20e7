#include "predict/linear_latency.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"
#include "predict/shapes_test.h"

namespace wattle::predict {
namespace {

constexpr std::int64_t kAnyKv = std::numeric_limits<std::int64_t>::max();

LinearCoefficients two_clocks() {
  LinearCoefficients c;
  c.tile_ends = {128, 256};
  const std::vector<DecodePlane> slow{{10'000, 50, 10'000'000}, {10'000, 50, 14'000'000}, {10'000, 50, 18'000'000}};
  const std::vector<DecodePlane> fast{{8'000, 40, 8'000'000}, {8'000, 40, 11'000'000}, {8'000, 40, 14'000'000}};
  c.clocks = {{MegaHertz{1000}, {100'000, 5'000'000}, slow}, {MegaHertz{1500}, {70'000, 4'000'000}, fast}};
  c.prefill_tokens_min = 16;
  c.prefill_tokens_max = 8'192;
  c.decode_requests_max = 512;
  c.decode_kv_tokens_max = 400'000;
  return c;
}

LinearLatency model(LinearCoefficients c = two_clocks()) { return std::move(*LinearLatency::make(std::move(c))); }

TEST(LinearLatency, EvaluatesThePublishedForm) {
  const auto m = model();
  EXPECT_EQ(m.step_time(prompts(1'000), MegaHertz{1000}), Span::ms(105));
  EXPECT_EQ(m.step_time(decodes(100, 100'000), MegaHertz{1000}), Span::ms(16));
  EXPECT_EQ(m.step_time(decodes(128, 0), MegaHertz{1500}), Span::us(9'024));
  EXPECT_EQ(m.step_time(decodes(129, 0), MegaHertz{1500}), Span::us(12'032)) << "the next tile begins";
  EXPECT_EQ(m.step_time(decodes(100'000, 0), MegaHertz{1500}), Span::ms(814)) << "the last tile has no end";
  EXPECT_EQ(m.step_time({}, MegaHertz{1500}), Span{});
}

TEST(LinearLatency, AStepOfBothPhasesTakesItsPassAndWhatWasMeasuredBeyondIt) {
  LinearCoefficients c = two_clocks();
  c.clocks[0].mixed = MixedLine{20'000, 600'000};
  const auto m = model(c);
  StepShape both = prompts(900);
  both.decode_requests = 100;
  both.decode_kv_tokens = 10'000;
  // 1,000 tokens in one pass take 105 ms, the KV of the decodes 0.5, 100 requests 2 and both kinds of attention 0.6.
  EXPECT_EQ(m.step_time(both, MegaHertz{1000}), Span::us(108'100));
  both.prefill_tokens = 1;
  EXPECT_EQ(m.step_time(both, MegaHertz{1000}), Span::us(15'100 + 500 + 2'600)) << "the pass of 101 tokens";
  c.clocks[0].mixed.reset();
  EXPECT_EQ(model(c).step_time(both, MegaHertz{1000}), Span::us(15'600)) << "none was measured";
  c.clocks[0].decode[0].ns_per_request = 400'000;  // not the pass's, as of a host that works for each request
  both.prefill_tokens = 900;
  EXPECT_EQ(model(c).step_time(both, MegaHertz{1000}), Span::us(50'000 + 90'000 + 500)) << "900 tokens more";
}

TEST(LinearLatency, ADecodeStepTakesNoLessThanItsHost) {
  LinearCoefficients c = two_clocks();
  c.host = {20'000, 10'000'000};  // 12 ms with 100 requests
  const auto m = model(c);
  EXPECT_EQ(m.step_time(decodes(100, 100'000), MegaHertz{1000}), Span::ms(16));
  EXPECT_EQ(m.step_time(decodes(100, 0), MegaHertz{1500}), Span::ms(12));
  EXPECT_EQ(m.step_time(decodes(100, 0), MegaHertz{1250}), Span::ms(12)) << "between two clocks";
  EXPECT_EQ(m.step_time(prompts(10), MegaHertz{1000}), model().step_time(prompts(10), MegaHertz{1000}));
  const std::vector<std::int32_t> requests{100, 100};
  const std::vector<std::int64_t> kv_tokens{0, 400'000};
  std::vector<Span> times(2);
  m.decode_times(requests, kv_tokens, MegaHertz{1500}, times);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(times[i], m.step_time(decodes(requests[i], kv_tokens[i]), MegaHertz{1500})) << i;
  }
  const std::int64_t most = m.kv_tokens_within(decodes(100, 0), MegaHertz{1500}, Span::ms(12));
  EXPECT_EQ(m.step_time(decodes(100, most), MegaHertz{1500}), Span::ms(12));
  EXPECT_GT(m.step_time(decodes(100, most + 1'000), MegaHertz{1500}), Span::ms(12));
  EXPECT_EQ(m.kv_tokens_within(decodes(100, 7), MegaHertz{1500}, Span::ms(11)), 7) << "the host alone takes longer";
  c.host.ns = -1.0;
  EXPECT_FALSE(LinearLatency::make(c));
}

TEST(LinearLatency, InterpolatesInInverseClockAndFlagsExtrapolation) {
  const auto m = model();
  const auto at = [&](int mhz) { return m.step_time(prompts(1'000), MegaHertz{mhz}).millis(); };
  EXPECT_NEAR(at(1200), 89.5, 1e-5);  // 1/1200 lies midway between 1/1000 and 1/1500; 105 and 74 ms
  EXPECT_NEAR(at(750), 136.0, 1e-5);  // as far again below
  EXPECT_NEAR(at(2000), 58.5, 1e-5);
  EXPECT_NEAR(at(1), 93'012.0, 1e-2);
  EXPECT_NEAR(at(100'000), 12.93, 1e-5);
  EXPECT_FALSE(m.extrapolates(decodes(512, 400'000), MegaHertz{1200}));
  EXPECT_TRUE(m.extrapolates(decodes(512, 400'000), MegaHertz{999}));
  EXPECT_TRUE(m.extrapolates(decodes(512, 400'000), MegaHertz{1501}));
  EXPECT_TRUE(m.extrapolates(decodes(513, 1), MegaHertz{1200}));
  EXPECT_TRUE(m.extrapolates(decodes(1, 400'001), MegaHertz{1200}));
  EXPECT_TRUE(m.extrapolates(prompts(8'193), MegaHertz{1200}));
  EXPECT_TRUE(m.extrapolates(prompts(15), MegaHertz{1200}));
  EXPECT_FALSE(m.extrapolates(prompts(16), MegaHertz{1200}));
}

TEST(LinearLatency, AStepWithBothPhasesReadsTheWeightsOnce) {
  const auto m = model();
  auto both = decodes(100, 100'000);
  both.prefill_tokens = 1;
  EXPECT_EQ(m.step_time(both, MegaHertz{1000}), Span::us(15'100 + 5'000)) << "the prefill line at 101 tokens, plus KV";
  both.prefill_tokens = 1'000;
  EXPECT_EQ(m.step_time(both, MegaHertz{1000}), Span::ms(115 + 5));
}

TEST(LinearLatency, RefusesCoefficientsThatCannotBe) {
  const auto message = [](LinearCoefficients c) {
    const auto made = LinearLatency::make(std::move(c));
    return made ? std::string() : made.error().message();
  };
  EXPECT_EQ(message(two_clocks()), "");
  EXPECT_NE(message({}).find("no clock"), std::string::npos);
  auto c = two_clocks();
  std::swap(c.clocks[0], c.clocks[1]);
  EXPECT_NE(message(c).find("ascending"), std::string::npos);
  c = two_clocks();
  c.tile_ends = {128, 128};
  EXPECT_NE(message(c).find("tile ends"), std::string::npos);
  c = two_clocks();
  c.tile_ends = {128};
  EXPECT_NE(message(c).find("3 decode tiles"), std::string::npos);
  c = two_clocks();
  c.clocks[1].decode[2].ns_per_kv_token = -1e-9;
  EXPECT_NE(message(c).find("1500 MHz"), std::string::npos);
  c = two_clocks();
  c.clocks[0].prefill.ns = std::nan("");
  EXPECT_NE(message(c).find("1000 MHz"), std::string::npos);
}

/// Uniform integer in [low, high).
std::int64_t between(RandomStream& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low)));
}

LinearCoefficients any_coefficients(RandomStream& random) {
  LinearCoefficients c;
  for (std::int32_t end = 0; random.below(4) != 0;) {
    c.tile_ends.push_back(end += static_cast<std::int32_t>(between(random, 1, 200)));
  }
  std::int32_t mhz = 0;
  do {
    ClockCoefficients clock{MegaHertz{mhz += static_cast<std::int32_t>(between(random, 15, 600))},
                            {random.uniform() * 3e5, random.uniform() * 1e7},
                            {}};
    for (std::size_t t = 0; t <= c.tile_ends.size(); ++t) {
      // From nothing per KV token over a picosecond to absurd.
      const double slope = random.below(8) == 0 ? 0.0 : std::pow(10.0, random.uniform() * 7.0 - 3.0);
      clock.decode.push_back({random.uniform() * 1e5, slope, random.uniform() * 3e7});
    }
    c.clocks.push_back(std::move(clock));
  } while (random.below(4) != 0);
  return c;
}

RC_GTEST_PROP(LinearLatencyProperty, KvTokensWithinIsExactToTheToken, (std::uint64_t seed)) {
  RandomStream random(seed, "kv tokens within");
  const auto m = model(any_coefficients(random));
  for (int i = 0; i < 50; ++i) {
    const MegaHertz clock{static_cast<std::int32_t>(between(random, 1, 3'000))};
    StepShape shape = decodes(static_cast<std::int32_t>(between(random, 1, 1'500)), between(random, 0, 1'000'000));
    if (random.below(4) == 0) shape.prefill_tokens = between(random, 1, 10'000);
    const Span now = m.step_time(shape, clock);
    const Span budget = now + Span(between(random, -1'000, 1'000) * between(random, 0, 100'000));
    const std::int64_t within = m.kv_tokens_within(shape, clock, budget);
    RC_ASSERT(within >= shape.decode_kv_tokens);
    if (budget < now) {
      RC_ASSERT(within == shape.decode_kv_tokens);
      continue;
    }
    shape.decode_kv_tokens = within;
    RC_ASSERT(m.step_time(shape, clock) <= budget);
    if (within == kAnyKv) continue;
    ++shape.decode_kv_tokens;
    RC_ASSERT(m.step_time(shape, clock) > budget);
  }
}

RC_GTEST_PROP(LinearLatencyProperty, NeverFallsAsTheKvCacheGrows, (std::uint64_t seed)) {
  RandomStream random(seed, "monotone");
  const auto m = model(any_coefficients(random));
  const MegaHertz clock{static_cast<std::int32_t>(between(random, 1, 3'000))};
  StepShape shape = decodes(static_cast<std::int32_t>(between(random, 1, 1'500)), 0);
  Span previous;
  for (int i = 0; i < 60; ++i) {
    shape.decode_kv_tokens += between(random, 0, std::int64_t{1} << i);
    const Span t = m.step_time(shape, clock);
    RC_ASSERT(t >= previous);
    previous = t;
  }
}

RC_GTEST_PROP(LinearLatencyProperty, ManyAtOnceAreEachAsAlone, (std::uint64_t seed, bool fitted)) {
  RandomStream random(seed, "columns");
  const auto m = model(any_coefficients(random));
  const auto& clocks = m.coefficients().clocks;
  const MegaHertz clock = fitted ? clocks[random.below(clocks.size())].clock
                                 : MegaHertz{static_cast<std::int32_t>(between(random, 1, 3'000))};
  std::vector<std::int32_t> requests;
  std::vector<std::int64_t> kv;
  for (int i = 0; i < 50; ++i) {
    requests.push_back(static_cast<std::int32_t>(between(random, 1, 1'500)));
    kv.push_back(between(random, 0, 1'000'000));
  }
  std::vector<Span> out(requests.size());
  m.decode_times(requests, kv, clock, out);
  for (std::size_t i = 0; i < out.size(); ++i) RC_ASSERT(out[i] == m.step_time(decodes(requests[i], kv[i]), clock));
}

RC_GTEST_PROP(LinearLatencyProperty, IsTotal,
              (std::int32_t requests, std::int64_t kv, std::int64_t tokens, std::int32_t mhz, std::int64_t budget)) {
  const auto m = model();
  StepShape shape = decodes(requests, kv);
  shape.prefill_tokens = tokens;
  RC_ASSERT(m.step_time(shape, MegaHertz{mhz}) < Span::s(2 * 4'400));
  RC_ASSERT(m.kv_tokens_within(shape, MegaHertz{mhz}, Span(budget)) >= kv);
}

TEST(LinearLatency, IsTotalAtTheEnds) {
  const auto m = model();
  for (const std::int64_t kv : {std::numeric_limits<std::int64_t>::min(), std::int64_t{0}, kAnyKv}) {
    for (const std::int32_t n :
         {std::numeric_limits<std::int32_t>::min(), 1, std::numeric_limits<std::int32_t>::max()}) {
      for (const std::int32_t mhz :
           {std::numeric_limits<std::int32_t>::min(), 0, std::numeric_limits<std::int32_t>::max()}) {
        auto shape = decodes(n, kv);
        shape.prefill_tokens = kv;
        EXPECT_LT(m.step_time(shape, MegaHertz{mhz}), Span::s(8'800));
        for (const Span budget : {Span(std::numeric_limits<std::int64_t>::min()), Span{}, Span::max()}) {
          EXPECT_GE(m.kv_tokens_within(shape, MegaHertz{mhz}, budget), kv);
        }
      }
    }
  }
}

}  // namespace
}  // namespace wattle::predict
