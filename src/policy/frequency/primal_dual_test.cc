#include "policy/frequency/primal_dual.h"

#include <gtest/gtest.h>

#include <array>

namespace wattle::policy {
namespace {

/// The parabola through three points.
std::function<double(double)> through(std::array<double, 3> x, std::array<double, 3> y) {
  return [x, y](double at) {
    double sum = 0.0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t j = (i + 1) % 3;
      const std::size_t k = (i + 2) % 3;
      sum += y[i] * (at - x[j]) * (at - x[k]) / ((x[i] - x[j]) * (x[i] - x[k]));
    }
    return sum;
  };
}

/// Llama-3.1-8B on an A100-40G, a batch of 64: power and requests per second at 705, 1050 and 1410 MHz (EnergyLLM's
/// clock sweep, smoothed by its authors' forest).
ClockCurves measured() {
  const std::array<double, 3> ghz{0.705, 1.050, 1.410};
  ClockCurves curves;
  curves.power_w = through(ghz, {111.2, 131.8, 220.6});
  curves.rate_per_s = through(ghz, {2.960, 3.786, 4.098});
  curves.lowest_ghz = 0.705;
  return curves;
}

TEST(PrimalDual, comes_to_the_optimum_inside_the_range) {
  PrimalDual controller(measured(), {0.012, {1.0, 2.0, 0.5}});
  for (int i = 0; i < 20'000; ++i) controller.step();
  EXPECT_LT(controller.residual(), 1e-6);
  EXPECT_GT(controller.clock_ghz(), 0.75);
  EXPECT_LT(controller.clock_ghz(), 1.35);
  EXPECT_NEAR(controller.rates()[1] / controller.rates()[0], 2.0, 1e-6) << "log utilities share by weight";
}

TEST(PrimalDual, the_higher_the_price_of_a_watt_the_lower_the_clock) {
  double before = 2.0;
  for (const double price : {0.012 / 3, 0.012, 0.012 * 2}) {
    PrimalDual controller(measured(), {price, {1.0, 1.0}});
    for (int i = 0; i < 20'000; ++i) controller.step();
    EXPECT_LT(controller.residual(), 1e-5) << price;
    EXPECT_LT(controller.clock_ghz(), before) << price;
    before = controller.clock_ghz();
  }
}

TEST(PrimalDual, free_power_means_the_highest_clock) {
  PrimalDual controller(measured(), {1e-6, {1.0}});
  for (int i = 0; i < 20'000; ++i) controller.step();
  EXPECT_DOUBLE_EQ(controller.clock_ghz(), 1.41);
  EXPECT_LT(controller.residual(), 1e-6);
}

}  // namespace
}  // namespace wattle::policy
