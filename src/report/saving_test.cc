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

}  // namespace
}  // namespace wattle::report
