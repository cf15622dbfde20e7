#include "policy/frequency/primal_dual.h"

#include <gtest/gtest.h>

#include <array>

namespace wattle::policy {
namespace {

/// The parabola through three points.
double through(const std::array<double, 3>& x, const std::array<double, 3>& y, double at) {
  double sum = 0.0;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t j = (i + 1) % 3;
    const std::size_t k = (i + 2) % 3;
    sum += y[i] * (at - x[j]) * (at - x[k]) / ((x[i] - x[j]) * (x[i] - x[k]));
  }
  return sum;
}

/// Llama-3.1-8B on an A100-40G, a batch of 64: power and requests per second at 705, 1050 and 1410 MHz (EnergyLLM's
/// clock sweep, smoothed by its authors' forest).
struct Measured final : ClockCurves {
  Measured() { lowest_ghz = 0.705; }
  [[nodiscard]] double power_w(double ghz) const override { return through(kGhz, {111.2, 131.8, 220.6}, ghz); }
  [[nodiscard]] double rate_per_s(double ghz) const override { return through(kGhz, {2.960, 3.786, 4.098}, ghz); }
  static constexpr std::array<double, 3> kGhz{0.705, 1.050, 1.410};
};

PrimalDual settled(double price, std::span<const Flow> flows) {
  const Measured curves;
  PrimalDual controller(price, 0.02, curves.highest_ghz);
  for (int i = 0; i < 20'000; ++i) controller.step(curves, flows);
  return controller;
}

TEST(PrimalDual, comes_to_the_optimum_inside_the_range) {
  const std::array<Flow, 3> flows{{{1.0, 1.0}, {1.0, 2.0}, {1.0, 0.5}}};
  const PrimalDual controller = settled(0.012, flows);
  EXPECT_LT(controller.residual(Measured(), flows), 1e-6);
  EXPECT_GT(controller.clock_ghz(), 0.75);
  EXPECT_LT(controller.clock_ghz(), 1.35);
  EXPECT_NEAR(controller.rates()[1] / controller.rates()[0], 2.0, 1e-6) << "log utilities share by weight";
}

TEST(PrimalDual, users_alike_are_as_many_users) {
  const std::array<Flow, 1> alike{{{3.0, 1.0}}};
  const std::array<Flow, 3> each{{{1.0, 1.0}, {1.0, 1.0}, {1.0, 1.0}}};
  EXPECT_NEAR(settled(0.012, alike).clock_ghz(), settled(0.012, each).clock_ghz(), 1e-9);
  EXPECT_GT(settled(0.012, alike).clock_ghz(), settled(0.012, std::array<Flow, 1>{{{2.0, 1.0}}}).clock_ghz())
      << "more users, more to gain";
}

TEST(PrimalDual, the_higher_the_price_of_a_watt_the_lower_the_clock) {
  const std::array<Flow, 2> flows{};
  double before = 2.0;
  for (const double price : {0.012 / 3, 0.012, 0.012 * 2}) {
    const PrimalDual controller = settled(price, flows);
    EXPECT_LT(controller.residual(Measured(), flows), 1e-5) << price;
    EXPECT_LT(controller.clock_ghz(), before) << price;
    before = controller.clock_ghz();
  }
}

TEST(PrimalDual, free_power_means_the_highest_clock) {
  const std::array<Flow, 1> flows{};
  const PrimalDual controller = settled(1e-6, flows);
  EXPECT_DOUBLE_EQ(controller.clock_ghz(), 1.41);
  EXPECT_LT(controller.residual(Measured(), flows), 1e-6);
}

TEST(PrimalDual, least_rates_are_kept_whatever_a_watt_costs) {
  const Measured curves;
  const double wanted = curves.rate_per_s(1.2);
  const std::array<Flow, 1> flows{{{2.0, 1.0, wanted / 2}}};
  const PrimalDual controller = settled(1.0, flows);
  EXPECT_NEAR(controller.clock_ghz(), 1.2, 1e-3) << "the clock that just gives them";
  EXPECT_LT(settled(1.0, std::array<Flow, 1>{{{2.0, 1.0, 0.0}}}).clock_ghz(), 0.8);
}

TEST(PrimalDual, what_no_clock_gives_leaves_it_able_to_come_back) {
  const Measured curves;
  const std::array<Flow, 1> too_much{{{2.0, 1.0, 10.0 * curves.rate_per_s(1.41)}}};
  PrimalDual controller = settled(1.0, too_much);
  EXPECT_DOUBLE_EQ(controller.clock_ghz(), 1.41);
  const std::array<Flow, 1> modest{{{2.0, 1.0, 0.0}}};
  for (int i = 0; i < 500; ++i) controller.step(curves, modest);
  EXPECT_LT(controller.clock_ghz(), 1.0) << "gamma has not run away";
}

}  // namespace
}  // namespace wattle::policy
