#include "policy/scaling/smallest_engine.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace wattle::policy {
namespace {

constexpr Span kSpawn = Span::s(30);
constexpr Span kPeriod = Span::s(10);

/// Table II's Llama-2-13B engines.
SmallestEngineOptions engines() {
  SmallestEngineOptions options;
  options.shapes = {{1, 1.125, kSpawn}, {2, 4.0, kSpawn}, {4, 7.5, kSpawn}};
  return options;
}

/// A fleet that executes each plan: the wanted shape serves after its spawn time, and the others have ended by then.
class Obedient {
 public:
  explicit Obedient(SmallestEngineOptions options, std::size_t first)
      : shapes_(options.shapes), fleet_(shapes_.size()), policy_(std::move(options)) {
    fleet_[first] = {0, 1, 0, Instant()};
    wanted_ = first;
  }
  /// One period at this rate; returns the wanted shape.
  std::size_t ask(double rate) {
    now_ += kPeriod;
    if (fleet_[wanted_].serving == 0 && now_ >= since_ + shapes_[wanted_].spawn_time) {
      fleet_.assign(shapes_.size(), ShapeCount{});
      fleet_[wanted_] = {0, 1, 0, since_ + shapes_[wanted_].spawn_time};
    }
    const std::array rates{rate};
    const auto decision = policy_.plan({now_, rates, fleet_});
    reason = decision.reason;
    const auto counts = decision.wanted(shapes_.size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0 || i == wanted_) continue;
      fleet_[wanted_].coming = 0;  // one still on its way is given up
      wanted_ = i;
      since_ = now_;
      if (fleet_[i].serving == 0) fleet_[i].coming = 1;
    }
    return wanted_;
  }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] bool serves(std::size_t shape) const { return fleet_[shape].serving > 0; }
  std::string_view reason;

 private:
  std::vector<Shape> shapes_;
  std::vector<ShapeCount> fleet_;
  SmallestEngine policy_;
  std::size_t wanted_ = 0;
  Instant since_;
  Instant now_;
};

TEST(SmallestEngine, CoversTheRateAndGoesUpAtOnce) {
  Obedient fleet(engines(), 0);
  EXPECT_EQ(fleet.ask(1.125), 0U) << "at most its own maximum load";
  EXPECT_EQ(fleet.ask(1.2), 1U);
  EXPECT_EQ(fleet.ask(5.0), 2U) << "up again while the last one is still starting";
  EXPECT_EQ(fleet.ask(100.0), 2U) << "the largest where none covers it";
}

TEST(SmallestEngine, GraceBeginsWithServingAndIsRenewedInRange) {
  Obedient fleet(engines(), 0);
  ASSERT_EQ(fleet.ask(2.0), 1U);  // at 10 s; serves at 40 s
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fleet.ask(0.1), 1U) << fleet.now().seconds() << " " << fleet.reason;
  EXPECT_EQ(fleet.reason, "grace period: nothing smaller");  // at 60 s, until 70 s
  EXPECT_EQ(fleet.ask(0.1), 0U) << "70 s: served for its spawn time";
  Obedient renewed(engines(), 1);
  ASSERT_EQ(renewed.ask(2.0), 1U);  // at 10 s: in range, until 40 s
  EXPECT_EQ(renewed.ask(0.1), 1U);
  EXPECT_EQ(renewed.ask(0.1), 1U);
  EXPECT_EQ(renewed.ask(3.0), 1U);  // at 40 s: until 70 s
  EXPECT_EQ(renewed.ask(0.1), 1U);
  EXPECT_EQ(renewed.ask(0.1), 1U);
  EXPECT_EQ(renewed.ask(0.1), 0U);
}

TEST(SmallestEngine, MarginAndOwnGrace) {
  auto options = engines();
  options.margin = 0.5;
  EXPECT_EQ(Obedient(options, 0).ask(1.0), 1U);
  options = engines();
  options.grace = Span();
  Obedient hasty(options, 2);
  EXPECT_EQ(hasty.ask(0.5), 0U);
}

TEST(SmallestEngine, BeginsWithTheSmallestThatCoversWhenNothingRuns) {
  SmallestEngine policy(engines());
  const std::vector<ShapeCount> none(3);
  const std::array rates{1.0, 1.0};
  const auto decision = policy.plan({Instant(), rates, none});
  EXPECT_EQ(decision.wanted(3), (std::vector<std::int32_t>{0, 1, 0})) << "classes add up";
}

TEST(SmallestEngine, ShadowedItStillComesDownAgain) {
  // Plans are not executed: the fleet stays as it was.
  SmallestEngine policy(engines());
  std::vector<ShapeCount> fleet(3);
  fleet[0].serving = 1;
  Instant now;
  std::vector<std::int32_t> wanted;
  for (int i = 0; i < 20; ++i) {
    now += kPeriod;
    const std::array rates{i == 0 ? 5.0 : 0.1};
    const auto decision = policy.plan({now, rates, fleet});
    wanted = decision.wanted(3);
    EXPECT_EQ(wanted[2], i < 6 ? 1 : 0) << i;
  }
  EXPECT_EQ(wanted[0], 1);
}

// The guarantee of the header, for any sequence of rates: flapping around a boundary, noise, steps.
RC_GTEST_PROP(SmallestEngineProperty, SwitchRateIsBounded, (std::vector<std::uint8_t> draws, bool flapping)) {
  RC_PRE(!draws.empty());
  const auto options = engines();
  Obedient fleet(options, 1);
  std::size_t before = 1;
  Instant last_down = Instant() - Span::s(1000);
  std::size_t ups = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (const std::uint8_t draw : draws) {
      const double rate = flapping ? (draw % 2 == 0 ? 1.10 : 1.15) : draw / 25.0;
      const std::size_t after = fleet.ask(rate);
      if (after < before) {
        RC_ASSERT(fleet.now() - last_down >= kSpawn);
        RC_ASSERT(rate <= options.shapes[after].max_load_per_s);
        last_down = fleet.now();
        ups = 0;
      }
      if (after > before) RC_ASSERT(++ups <= options.shapes.size() - 1);
      // Never too small for the rate.
      RC_ASSERT(rate <= options.shapes[after].max_load_per_s || after + 1 == options.shapes.size());
      before = after;
    }
  }
}

}  // namespace
}  // namespace wattle::policy
