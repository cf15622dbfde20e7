#include "report/saving.h"

#include <gtest/gtest.h>

#include <cmath>

namespace wattle::report {
namespace {

TEST(Saving, IsOverTheSamePeriod) {
  journal::RunSummary slow;
  slow.sim.virtual_s = 120.0;
  slow.energy.total = Joules(900.0);
  slow.idle_power = Watts(2.0);
  journal::RunSummary fast;
  fast.sim.virtual_s = 100.0;
  fast.energy.total = Joules(960.0);
  fast.idle_power = Watts(2.0);
  EXPECT_DOUBLE_EQ(energy_until(fast, 120.0).value(), 1'000.0);
  EXPECT_DOUBLE_EQ(energy_until(fast, 50.0).value(), 960.0) << "what it took by then is not known";
  EXPECT_DOUBLE_EQ(saved_against(slow, fast), 0.1);
  EXPECT_DOUBLE_EQ(saved_against(fast, slow), 1.0 - 1'000.0 / 900.0);
  fast.idle_power = Watts(std::nan(""));
  EXPECT_DOUBLE_EQ(saved_against(slow, fast), 1.0 - 900.0 / 960.0) << "a live run's is unknown";
  EXPECT_TRUE(std::isnan(saved_against(slow, journal::RunSummary{})));
}

TEST(Saving, CarbonAndCostAreOverTheSamePeriodAsEnergy) {
  journal::RunSummary fast;
  fast.sim.virtual_s = 100.0;
  fast.energy.total = Joules(1'000.0);
  fast.idle_power = Watts(20.0);
  fast.carbon = GramsCo2(10.0);
  fast.cost_split = {.gpus = Usd(4.0), .electricity = Usd(1.0)};
  fast.cost = Usd(5.0);
  const Taken longer = taken_until(fast, 150.0);  // 1,000 J more, half the time more
  EXPECT_DOUBLE_EQ(longer.energy.value(), 2'000.0);
  EXPECT_DOUBLE_EQ(longer.carbon.value(), 20.0);
  EXPECT_DOUBLE_EQ(longer.cost.value(), 4.0 * 1.5 + 2.0);
  EXPECT_DOUBLE_EQ(taken_until(fast, 50.0).cost.value(), 5.0);
  fast.idle_power = Watts(std::nan(""));
  EXPECT_DOUBLE_EQ(taken_until(fast, 150.0).cost.value(), 5.0) << "a live run's is unknown";
}

TEST(Saving, IsNotStatedOfLessWork) {
  journal::RunSummary base;
  base.energy.total = Joules(1'000.0);
  base.requests.finished = 100;
  journal::RunSummary run = base;
  run.energy.total = Joules(500.0);
  EXPECT_DOUBLE_EQ(saving_stated(run, base), 0.5);
  run.requests.finished = 90;
  EXPECT_TRUE(std::isnan(saving_stated(run, base)));
}

}  // namespace
}  // namespace wattle::report
