#include "reproduce/freesh_power.h"

#include <gtest/gtest.h>

namespace wattle::reproduce::freesh {
namespace {

Instant at(double seconds) { return Instant() + Span::from_seconds(seconds); }

TEST(FreeshPower, TheRatingAtTheHighestClockAndAShareOfItAtTheLowest) {
  const MegaHertz most(1410);
  EXPECT_DOUBLE_EQ(power_share(most, most), 1.0);
  EXPECT_DOUBLE_EQ(power_share(MegaHertz(300), most), 0.3);
  EXPECT_DOUBLE_EQ(power_share(MegaHertz(210), most), 0.3);
  EXPECT_DOUBLE_EQ(power_share(MegaHertz(855), most), 0.65);
}

/// Half the requests to a worker of 700 W, half to one of 500; the hour ends after 10 s.
TEST(FreeshPower, ClocksAndRatingsMakeTheEnergyWhateverTheLoad) {
  plan::PoolsProblem problem;
  problem.kinds = {"A100"};
  problem.modes = {{"TP2", {2}}};
  plan::RequestPartition partition{"1", {}};
  for (const double watts : {700.0, 500.0}) {
    plan::PoolType type;
    type.demand_per_s = {1.0};
    type.ratings = {plan::WorkerRating{.peak = Watts(watts), .idle = Watts(0), .max_per_s = 1.0}};
    partition.types.push_back(type);
  }
  problem.partitions = {partition};
  journal::Instance instance{InstanceId(4), {}};
  instance.spec.gpu.name = "a100-80g";
  instance.spec.gpu.clock_max = MegaHertz(1410);
  instance.spec.tensor_parallel = 2;
  instance.spec.pool = PoolId(1);
  for (const bool pooled : {false, true}) {
    std::vector<carbon::SiteRates> sites(1);
    sites.front().intensity = carbon::IntensitySeries::constant(GramsPerKwh(360.0));
    RatedPower power(problem, 0, pooled, sites, at(10.0));
    power.joined(instance);
    for (int s = 0; s <= 20; ++s) {
      journal::Sample sample{at(s), instance.id, {}, MegaHertz(s < 5 ? 1410 : 855)};
      sample.energy = Picojoules(Int128{1'000'000'000'000} * s);
      power.sample(sample);
    }
    const double watts = pooled ? 600.0 : 500.0;
    EXPECT_NEAR(power.rated().total.energy.joules().value(), watts * (5.0 + 0.65 * 15.0), 1e-6);
    EXPECT_NEAR(power.rated().total.carbon.grams().value(), 1e-4 * watts * (5.0 + 0.65 * 15.0), 1e-6);
    EXPECT_NEAR(power.rated_in_time().total.energy.joules().value(), watts * (5.0 + 0.65 * 5.0), 1e-6);
    EXPECT_NEAR(power.booked_in_time().joules().value(), 10.0, 1e-9);
    power.decision({at(20.5), journal::DecisionKind::Phase, Mode::Enforce, RequestId{-1}, instance.id,
                    static_cast<std::int64_t>(Phase::Gone), ""});
    EXPECT_NEAR(power.rated().total.energy.joules().value(), watts * (5.0 + 0.65 * 15.5), 1e-6)
        << "none once it is gone";
  }
}

}  // namespace
}  // namespace wattle::reproduce::freesh
