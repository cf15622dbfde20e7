#include "live/agent/meter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "board_fixture.h"
#include "live/gpu/nvml.h"

namespace wattle::live {
namespace {

constexpr Instant kStart(5'000'000'000'000'000);

class Meter : public BoardFixture {
 protected:
  void SetUp() override {
    BoardFixture::SetUp();
    board().set_time(kStart);
    nvml_ = Nvml::open(FAKE_NVML).value();
  }
  void TearDown() override {
    nvml_.reset();
    BoardFixture::TearDown();
  }
  std::shared_ptr<const Nvml> nvml_;
};

TEST_F(Meter, WindowsOfASecondAndMoreAreWithinTwoPercentOfTheTruth) {
  double worst = 0.0;
  double worst_naive = 0.0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RandomStream random(seed, "meter");
    const Gpu gpu = nvml_->by_index(static_cast<std::uint32_t>(seed % 2)).value();
    const auto index = static_cast<std::int32_t>(seed % 2);
    EnergyMeter meter;
    Instant now = board().now();
    Instant next_change = now;
    struct Mark {
      Instant at;
      Picojoules truth, measured;
      std::uint64_t counter;
    };
    std::vector<Mark> marks;
    const Instant end = now + Span::s(6);
    while (now < end) {
      // An engine's draw: a level held for 5 to 400 ms, between idle and the power limit.
      if (now >= next_change) {
        board().set_activity(index, Milliwatts(60'000 + static_cast<std::int64_t>(random.below(340'000))),
                             MegaHertz(1005), 100, Span::s(10));
        next_change = now + Span::us(5'000 + static_cast<std::int64_t>(random.below(395'000)));
      }
      meter.sample(gpu.energy_counter_mj().value, gpu.power().value, now);
      marks.push_back({now, board().energy(index), meter.total(), gpu.energy_counter_mj().value});
      now += Span::us(4'500 + static_cast<std::int64_t>(random.below(1'000)));  // a thread that sleeps 5 ms
      board().set_time(now);
    }
    for (std::size_t a = 0; a < marks.size(); a += 12) {
      for (std::size_t b = a + 1; b < marks.size(); ++b) {
        const Span window = marks[b].at - marks[a].at;
        if (window < Span::s(1) || window > Span::ms(1100)) continue;
        const double truth = (marks[b].truth - marks[a].truth).joules().value();
        const double measured = (marks[b].measured - marks[a].measured).joules().value();
        const double naive = static_cast<double>(marks[b].counter - marks[a].counter) * 1e-3;
        worst = std::max(worst, std::abs(measured - truth) / truth);
        worst_naive = std::max(worst_naive, std::abs(naive - truth) / truth);
      }
    }
  }
  RecordProperty("worst_relative_error", std::to_string(worst));
  std::printf("worst error over windows of 1 to 1.1 s: %.2f %%, of the bare counter: %.2f %%\n", 100 * worst,
              100 * worst_naive);
  EXPECT_LT(worst, 0.02);
  EXPECT_GT(worst_naive, 0.05) << "else this test shows nothing";
}

TEST(EnergyMeter, ADriverReloadIsNoNegativeEnergy) {
  EnergyMeter meter;
  const Instant t;
  meter.sample(1'000'000, Milliwatts(100'000), t);
  meter.sample(1'010'000, Milliwatts(100'000), t + Span::ms(100));
  meter.sample(1'020'000, Milliwatts(100'000), t + Span::ms(200));
  const Picojoules before = meter.total();
  meter.sample(500, Milliwatts(100'000), t + Span::ms(300));
  EXPECT_EQ(meter.resets(), 1);
  EXPECT_NEAR((meter.total() - before).joules().value(), 10.0, 5.1);
  meter.sample(10'500, Milliwatts(100'000), t + Span::ms(400));
  EXPECT_NEAR(meter.total().joules().value(), 40.0, 5.1);
}

TEST(EnergyMeter, AThirtyTwoBitCounterMayOverflow) {
  EnergyMeter meter;
  const Instant t;
  const std::uint64_t top = (std::uint64_t{1} << 32U) - 5'000;
  meter.sample(top - 10'000, Milliwatts(100'000), t);
  meter.sample(top, Milliwatts(100'000), t + Span::ms(100));
  meter.sample(5'000, Milliwatts(100'000), t + Span::ms(200));
  EXPECT_EQ(meter.wraps(), 1);
  EXPECT_EQ(meter.resets(), 0);
  EXPECT_NEAR(meter.total().joules().value(), 20.0, 5.1);
}

TEST(EnergyMeter, WithoutACounterPowerIsIntegrated) {
  EnergyMeter meter;
  for (int i = 0; i <= 100; ++i) meter.sample(std::nullopt, Milliwatts(250'000), Instant() + Span::ms(20 * i));
  EXPECT_DOUBLE_EQ(meter.total().joules().value(), 500.0);
}

}  // namespace
}  // namespace wattle::live
