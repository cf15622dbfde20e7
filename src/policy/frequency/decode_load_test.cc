#include "policy/frequency/decode_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"

namespace wattle::policy {
namespace {

constexpr MegaHertz kLow{600};
constexpr MegaHertz kMiddle{900};
constexpr MegaHertz kHigh{1200};
const std::vector<MegaHertz> kClocks{kLow, kMiddle, kHigh};
constexpr Span kLimit = Span::ms(25);
constexpr std::int64_t kContext = 100;

/// At the high clock 10 ms and 0.1 for each request; a fifth longer at the middle one, half as long again at the low.
/// So the high clock steps 150 requests within 25 ms, and gives 6,000 tokens a second with them, the others 5,000 and
/// 4,000.
class Steps final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const double slower = clock == kHigh ? 1.0 : clock == kMiddle ? 1.2 : 1.5;
    return Span::from_seconds(1e-3 * slower * (10.0 + 0.1 * shape.decode_requests));
  }
};

/// Requests of 100 tokens each, and an instance that runs at the returned clock, or at a given one.
class Instance {
 public:
  explicit Instance(std::int64_t kv_capacity_tokens = 0, std::int32_t max_requests = 1024) {
    InstanceSpec spec;
    spec.beliefs.latency = &steps_;
    spec.kv_capacity_tokens = kv_capacity_tokens;
    spec.max_requests = max_requests;
    load.emplace(kClocks, 0.005, spec);
  }
  /// Requests at this rate, one by one or (`together`) in groups at random times, for this long; the clock at the end.
  MegaHertz run(double per_second, Span span, MegaHertz at = MegaHertz{0}, std::size_t together = 1) {
    const Instant end = now + span;
    Instant next = now;
    const double groups_per_second = per_second / static_cast<double>(together);
    const auto gap = [&] {
      return Span::from_seconds((together > 1 ? draws_.exponential() : 1.0) / groups_per_second);
    };
    while (now < end) {
      for (; next <= now; next += gap()) left.insert(left.end(), together, 100);
      step(at);
    }
    return load->least();
  }
  /// A batch that is always refilled to so many requests.
  MegaHertz filled(std::size_t requests, Span span) {
    const Instant end = now + span;
    // Of different ages, so that they do not end together.
    while (left.size() < requests) left.push_back(1 + static_cast<int>(left.size()) % 100);
    while (now < end) {
      step(MegaHertz{0});
      left.resize(requests, 100);
    }
    return load->least();
  }
  std::optional<DecodeLoad> load;
  std::vector<int> left;
  Instant now = Instant{} + Span::s(1'000);
  Span busy;
  Span above_low;

 private:
  RandomStream draws_{7, "arrivals"};
  void step(MegaHertz at) {
    StepShape shape;
    shape.decode_requests = static_cast<std::int32_t>(left.size());
    shape.decode_kv_tokens = shape.decode_requests * kContext;
    load->note(shape, 0, kLimit, now);
    const MegaHertz clock = at == MegaHertz{0} ? load->least() : at;
    load->runs_at(clock);
    if (left.empty()) {
      now += Span::ms(1);
      return;
    }
    const Span took = steps_.step_time(shape, clock);
    now += took;
    busy += took;
    if (clock > kLow) above_low += took;
    for (int& tokens : left) --tokens;
    std::erase(left, 0);
  }
  Steps steps_;
};

TEST(DecodeLoad, ALoadIsCarriedByTheLowestClockThatGivesAsManyTokens) {
  EXPECT_EQ(Instance().run(30, Span::s(200)), kLow) << "3,000 tokens a second";
  EXPECT_EQ(Instance().run(45, Span::s(200)), kMiddle) << "4,500";
  EXPECT_EQ(Instance().run(55, Span::s(200)), kHigh) << "5,500";
  EXPECT_EQ(Instance().run(80, Span::s(200)), kHigh) << "more than any clock carries";
}

TEST(DecodeLoad, NoBatchOutgrowsTheHighestClockForHavingRunSlowly) {
  // 55 a second: at the high clock 122 requests run, at the low one more and more.
  Instance instance;
  (void)instance.run(55, Span::s(100));
  EXPECT_LT(instance.left.size(), 135U);
  Instance slow;
  (void)slow.run(55, Span::s(100), kLow);
  EXPECT_GT(slow.left.size(), 400U);
}

TEST(DecodeLoad, WhileNoAnswerHasEndedALoadIsTakenToBeLarge) {
  Instance busy;
  EXPECT_EQ(busy.run(55, Span::s(1)), kHigh) << "none has had its 100 tokens";
  Instance quiet;
  EXPECT_EQ(quiet.run(2, Span::s(1)), kLow) << "two requests are no crowd, however long their answers";
  StepShape none;
  quiet.load->note(none, 0, kLimit, quiet.now + Span::s(1));
  EXPECT_EQ(quiet.load->least(), kLow);
}

TEST(DecodeLoad, AFluctuatingBatchNeedsRoom) {
  /// Share of busy time above the low clock, after ten minutes.
  const auto above_low = [](double per_second, std::size_t together) {
    Instance instance;
    (void)instance.run(per_second, Span::s(600), MegaHertz{0}, together);
    instance.above_low = instance.busy = Span();
    (void)instance.run(per_second, Span::s(600), MegaHertz{0}, together);
    return instance.above_low.seconds() / instance.busy.seconds();
  };
  EXPECT_EQ(above_low(30, 1), 0.0) << "82 requests at the low clock, and never many more";
  EXPECT_GT(above_low(30, 40), 0.9) << "82 in the mean, but more than 150 at times";
  EXPECT_LT(above_low(8, 40), 0.1) << "14 in the mean";
}

TEST(DecodeLoad, ALoadIsForgotten) {
  Instance instance;
  EXPECT_EQ(instance.run(55, Span::s(100)), kHigh);
  EXPECT_EQ(instance.run(20, Span::s(150)), kLow);
}

TEST(DecodeLoad, TheLargestBatchIsWhatTheKvCacheHoldsAndTheEngineAdmits) {
  // 50 requests: 15 ms at the high clock, 3,333 tokens/s; 2,777 and 2,222 at the others.
  const auto least = [](double per_second, std::int64_t kv_tokens, std::int32_t requests) {
    return Instance(kv_tokens, requests).run(per_second, Span::s(200));
  };
  for (const auto& [kv_tokens, requests] : {std::pair(50 * kContext, 1024), std::pair(std::int64_t{0}, 50)}) {
    EXPECT_EQ(least(15, kv_tokens, requests), kLow);
    EXPECT_EQ(least(25, kv_tokens, requests), kMiddle);
    EXPECT_EQ(least(30, kv_tokens, requests), kHigh);
  }
}

TEST(DecodeLoad, AnInstanceThatIsFilledUpToABatchComesDownClockByClock) {
  // 90 requests: at the high clock 4,737 tokens a second, which the middle one carries; there 3,947, which the low one
  // does.
  Instance instance;
  EXPECT_EQ(instance.filled(90, Span::s(10)), kHigh);
  EXPECT_EQ(instance.filled(90, Span::s(600)), kLow);
}

}  // namespace
}  // namespace wattle::policy
