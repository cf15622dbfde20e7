#include "experiment/saturation.h"

#include <gtest/gtest.h>

#include "config/locate.h"

namespace wattle::experiment {
namespace {

constexpr std::int64_t kRequests = 4'000;  // with fewer the run ends before a queue shows

config::LoadedScenario engine(int tensor_parallel) {
  const auto loaded =
      config::load_scenario("throttllem-llama2-13b-tp" + std::to_string(tensor_parallel),
                            {{"workload.trace", ""}, {"workload.synthetic", "azure-conv"}}, config::project());
  EXPECT_TRUE(loaded) << loaded.error().message();
  return *loaded;
}

MaxLoad measured(const config::LoadedScenario& loaded, std::optional<Span> e2e) {
  MaxLoadOptions options;
  options.e2e = e2e;
  options.requests = kRequests;
  const auto found = measure_max_load(loaded, 0, "", options);
  EXPECT_TRUE(found) << found.error().message();
  return found.value_or(MaxLoad{});
}

TEST(MaxLoad, IsTheRateAtWhichTheTailMeetsTheObjective) {
  const auto tp2 = engine(2);
  const MaxLoad tight = measured(tp2, Span::s(25));
  const MaxLoad loose = measured(tp2, Span::s(40));
  EXPECT_LE(tight.e2e_p99, Span::s(25));
  EXPECT_GT(tight.e2e_p99, Span::s(20)) << "1 % more load would already have missed it";
  EXPECT_EQ(tight.e2e_objective, Span::s(25));
  EXPECT_LT(tight.rate_per_s, loose.rate_per_s);
  EXPECT_LT(loose.rate_per_s, measured(engine(4), Span::s(40)).rate_per_s);
  EXPECT_EQ(measured(tp2, Span::s(25)).rate_per_s, tight.rate_per_s) << "deterministic";
}

TEST(MaxLoad, TheTailAtTheMaximumLoadIsTheOneThatWasFound) {
  const auto tp2 = engine(2);
  const MaxLoad found = measured(tp2, Span::s(25));
  EXPECT_EQ(measure_e2e_p99(tp2, 0, found.rate_per_s, "", kRequests).value(), found.e2e_p99);
  EXPECT_GT(measure_e2e_p99(tp2, 0, 1.05 * found.rate_per_s, "", kRequests).value(), Span::s(25));
}

TEST(MaxLoad, ObjectiveDefaultsToTheScenariosThenToTwiceALoneRequests) {
  auto tp4 = engine(4);
  EXPECT_EQ(measured(tp4, {}).e2e_objective, *tp4.scenario.slo.e2e);
  tp4.scenario.slo.e2e.reset();
  const MaxLoad knee = measured(tp4, {});
  EXPECT_GT(knee.e2e_objective, Span::s(1));
  EXPECT_LE(knee.e2e_p99, knee.e2e_objective);
}

TEST(MaxLoad, APoolMayHaveItsOwnObjectiveAndOtherLengths) {
  auto tp4 = engine(4);
  const MaxLoad own = measured(tp4, {});
  tp4.scenario.pools.front().max_load_e2e = *tp4.scenario.slo.e2e / 2;
  const MaxLoad tight = measured(tp4, {});
  EXPECT_EQ(tight.e2e_objective, *tp4.scenario.slo.e2e / 2);
  EXPECT_LT(tight.rate_per_s, own.rate_per_s);
  tp4.scenario.load_lengths = "mlperf-openorca";
  EXPECT_GT(measured(tp4, {}).rate_per_s, tight.rate_per_s) << "a sixth of the prompt tokens";
}

TEST(MaxLoad, IsTheSameWhereverTenantsMayBeServed) {
  auto resident = engine(2);
  const MaxLoad anywhere = measured(resident, Span::s(25));
  for (const char* name : {"here", "there"}) {
    resident.scenario.sites.emplace_back();
    resident.scenario.sites.back().name = name;
    resident.scenario.tenants.emplace_back();
    resident.scenario.tenants.back().name = name;
  }
  resident.scenario.pools[0].site = "here";
  resident.scenario.tenants[1].residency = "there";
  EXPECT_NEAR(measured(resident, Span::s(25)).rate_per_s, anywhere.rate_per_s, 0.1 * anywhere.rate_per_s);
}

TEST(MaxLoad, RefusesWhatNoLoadMeetsAndRolesWithoutOne) {
  auto tp1 = engine(1);
  MaxLoadOptions options;
  options.requests = 100;
  options.e2e = Span::ms(1);
  const auto impossible = measure_max_load(tp1, 0, "", options);
  ASSERT_FALSE(impossible);
  EXPECT_NE(impossible.error().message().find("no load meets it"), std::string::npos);
  const auto own = config::load_scenario(
      "throttllem-llama2-13b-tp1",
      {{"workload.trace", ""}, {"workload.synthetic", "azure-conv"}, {"fleet.0.max_load_e2e_ms", "1"}},
      config::project());
  ASSERT_TRUE(own) << own.error().message();
  const auto by_key = measure_max_load(*own, 0, "", {.e2e = {}, .requests = 100});
  ASSERT_FALSE(by_key);
  EXPECT_EQ(by_key.error().where, "--set fleet.0.max_load_e2e_ms") << "the key that states it";
  tp1.scenario.pools.front().role = Role::Decode;
  EXPECT_FALSE(measure_max_load(tp1, 0, "", {}));
}

/// Otherwise a loose objective would be met at any rate, because the run ends before the queue shows.
TEST(MaxLoad, IsWithinWhatIsServedForLongWhateverTheObjective) {
  const auto tp4 = engine(4);
  const double most = measured(tp4, Span::s(100'000)).rate_per_s;
  EXPECT_EQ(measured(tp4, Span::s(1'000'000)).rate_per_s, most);
  EXPECT_LT(measured(tp4, Span::s(30)).rate_per_s, most);
  const auto late = [&](std::int64_t requests) { return *measure_e2e_p99(tp4, 0, 1.2 * most, "", requests); };
  EXPECT_GT(late(4 * kRequests), late(kRequests) * 2) << "beyond it the queue grows";
}

TEST(MaxLoad, DoesNotDependOnTheSliceThatIsReplayed) {
  auto tp4 = engine(4);
  const MaxLoad whole = measured(tp4, Span::s(30));
  tp4.scenario.workload.duration = Span::s(5);
  tp4.scenario.workload.start = Span::s(100);
  EXPECT_EQ(measured(tp4, Span::s(30)).rate_per_s, whole.rate_per_s);
}

/// They befall the fleet of the run, not the engine that is measured.
TEST(MaxLoad, DoesNotDependOnFaults) {
  auto tp4 = engine(4);
  const MaxLoad whole = measured(tp4, Span::s(30));
  tp4.scenario.faults = {{Span::s(1), {}, 0, {}}, {Span::s(2), {}, 1, Span::s(5)}};
  EXPECT_EQ(measured(tp4, Span::s(30)).rate_per_s, whole.rate_per_s);
}

TEST(MaxLoad, SharesOfItBecomeRates) {
  auto tp4 = engine(4);
  tp4.scenario.pools.front().max_load_per_s = 6.0;  // stated: not measured
  tp4.scenario.peak_load = 0.5;
  tp4.scenario.trough_load = 0.1;
  const auto out = with_loads(tp4, false, "");
  ASSERT_TRUE(out) << out.error().message();
  EXPECT_EQ(out->scenario.workload.peak_rate_per_s, 3.0);
  EXPECT_DOUBLE_EQ(out->scenario.workload.trough_rate_per_s, 0.6);
  EXPECT_EQ(out->scenario.peak_load, 0.0) << "done with: a second call measures nothing";
  tp4.scenario.peak_load = tp4.scenario.trough_load = 0.0;
  EXPECT_EQ(with_loads(tp4, false, "")->scenario.workload.peak_rate_per_s, 0.0);
}

}  // namespace
}  // namespace wattle::experiment
