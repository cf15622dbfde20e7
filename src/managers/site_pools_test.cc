#include "managers/site_pools.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "managers/site_pools_rig_test.h"

namespace wattle::managers {
namespace {

TEST(SitePools, LoadFollowsCleanElectricityAtTheNextEpochAndNotBefore) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitesDriver driver(two_sites(grams));
  Instant now;
  Plan plan = driver.ask(now, {0.0, 0.0});
  EXPECT_GT(SitesDriver::at_site(plan, 0), 0);
  EXPECT_EQ(SitesDriver::at_site(plan, 1), 0);
  ASSERT_EQ(plan.weights.size(), 2U);
  EXPECT_EQ(plan.weights[1].pool, PoolId(1));
  grams = {{0, 500.0}, {1, 100.0}};
  for (; now < Instant() + Span::s(1795); now = now + kTick) plan = driver.ask(now, {3.0, 3.0});
  EXPECT_EQ(SitesDriver::at_site(plan, 1), 0);
  EXPECT_EQ(driver.policy.plans(), 1);
  for (; now <= Instant() + Span::s(1800); now = now + kTick) plan = driver.ask(now, {3.0, 3.0});
  EXPECT_EQ(driver.policy.plans(), 2);
  EXPECT_EQ(SitesDriver::at_site(plan, 0), 0);
  EXPECT_GT(SitesDriver::at_site(plan, 1), 0);
}

TEST(SitePools, WhatIsExpectedIsPlannedForWhateverIsSeen) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.expected = {{2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 8.0, 9.0}, {4.0}};
  SitePoolsOptions options;
  options.beta = 2.0;
  SitesDriver driver(std::move(setup), options);
  Instant now;
  static_cast<void>(driver.ask(now, {0.0, 0.0}));
  const auto& types = driver.policy.problem().partitions[0].types;
  EXPECT_EQ(types[0].demand_per_s, (std::vector<double>{1.0, 0.5, 0.5, 0.5, 0.5, 0.5}));
  for (; now <= Instant() + Span::s(1800); now = now + kTick) static_cast<void>(driver.ask(now, {30.0, 30.0}));
  EXPECT_EQ(types[0].demand_per_s, (std::vector<double>{4.0, 4.5, 4.5, 4.5, 4.5, 4.5})) << "the last goes on";
  EXPECT_EQ(types[1].demand_per_s, std::vector<double>(6, 2.0));
}

TEST(SitePools, OutOfTurnMoreThanIsPlannedForAndCarriedIsPlannedForAtOnce) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  for (const bool out_of_turn : {true, false}) {
    SitePoolsOptions options;
    options.out_of_turn = out_of_turn;
    SitesDriver driver(two_sites(grams), options);
    const auto workers = [](const Plan& plan) { return SitesDriver::at_site(plan, 0) + SitesDriver::at_site(plan, 1); };
    const int calm = workers(driver.ask(Instant(), {0.0, 0.0}));
    // Two of one GPU carry 4 a second, for a demand of 3.
    EXPECT_EQ(workers(driver.ask(Instant() + kTick, {3.9, 3.0})), calm) << "more than planned for, but carried";
    const Plan crowd = driver.ask(Instant() + kTick * 2, {14.0, 3.0});
    EXPECT_EQ(workers(crowd) > calm, out_of_turn);
    EXPECT_EQ(driver.policy.plans(), out_of_turn ? 2 : 1);
    static_cast<void>(driver.ask(Instant() + kTick * 3, {14.0, 3.0}));
    static_cast<void>(driver.ask(Instant() + kTick * 4, {2.0, 3.0}));
    EXPECT_EQ(driver.policy.plans(), out_of_turn ? 2 : 1) << "once for a load; less waits for the next epoch";
  }
}

TEST(SitePools, PeaksOfFiveSecondsArePlannedFor) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitesDriver driver(two_sites(grams));
  Instant now;
  Plan plan;
  for (; now <= Instant() + Span::s(1800); now = now + kTick) {
    const bool burst = now == Instant() + Span::s(1400);
    plan = driver.ask(now, {burst ? 12.0 : 1.0, 1.0});
  }
  const auto& types = driver.policy.problem().partitions[0].types;
  EXPECT_DOUBLE_EQ(types[0].demand_per_s.back(), 1.0) << "the last slot had no burst, and is carried on";
  SitesDriver again(two_sites(grams));
  for (now = Instant(); now <= Instant() + Span::s(1800); now = now + kTick) {
    const bool burst = now == Instant() + Span::s(1705);
    plan = again.ask(now, {burst ? 12.0 : 1.0, 1.0});
  }
  EXPECT_DOUBLE_EQ(again.policy.problem().partitions[0].types[0].demand_per_s.front(), 12.0);
}

TEST(SitePools, UnknownIntensityLeavesCarbonOutAndSaysSo) {
  std::map<std::size_t, std::optional<double>> grams{{0, std::nullopt}, {1, 900.0}};
  SitesDriver driver(two_sites(grams));
  const Plan plan = driver.ask(Instant(), {0.0, 0.0});
  EXPECT_STREQ(plan.reason, "an intensity is unknown: planned without carbon");
  EXPECT_FALSE(plan.instances.empty());
  // Taken for zero, the first site would have had all of it, and the objective would be nothing.
  ASSERT_NE(driver.policy.newest(), nullptr);
  EXPECT_GT(driver.policy.newest()->objective, 0.0);
}

TEST(SitePools, PricesReachThePlanAndUnknownOnesAreSaid) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  const auto sites_used = [&](plan::PoolsObjective objective, std::optional<double> first) {
    auto setup = two_sites(grams);
    setup.price = [first](std::size_t site, Instant) { return site == 0 ? first : std::optional(0.04); };
    SitePoolsOptions options;
    options.planning.objective = objective;
    SitesDriver driver(std::move(setup), options);
    const Plan plan = driver.ask(Instant(), {0.0, 0.0});
    return std::tuple(SitesDriver::at_site(plan, 0) > 0, SitesDriver::at_site(plan, 1) > 0, std::string(plan.reason));
  };
  EXPECT_EQ(sites_used({0.0, 0.0, 1.0}, 0.08), std::tuple(false, true, "pools of least cost for the next epoch"));
  EXPECT_EQ(sites_used({0.0, 0.0, 1.0}, 0.02), std::tuple(true, false, "pools of least cost for the next epoch"));
  const std::string mixture = "pools of the least mixture of carbon, energy and cost for the next epoch";
  EXPECT_EQ(sites_used({0.1, 0.0, 0.9}, 0.08), std::tuple(false, true, mixture));
  EXPECT_EQ(sites_used({0.9, 0.0, 0.1}, 0.08), std::tuple(true, false, mixture));
  EXPECT_EQ(std::get<2>(sites_used({0.0, 0.0, 1.0}, std::nullopt)), "a price is unknown: planned without cost");
  EXPECT_EQ(sites_used({0.5, 0.0, 0.5}, std::nullopt),
            std::tuple(true, false, "a price is unknown: planned without cost"));
}

/// One site is expensive for the first five minutes of every hour alone, the other always the same.
TEST(SitePools, PricesGoOnAsIntensitiesDo) {
  for (const bool seasonal : {false, true}) {
    std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 100.0}};
    auto setup = two_sites(grams);
    setup.price = [](std::size_t site, Instant at) {
      const std::int64_t slot = at.ns() / Span::s(300).ns();
      return std::optional(site == 1 ? 0.05 : (slot % 12 + 12) % 12 == 0 ? 0.09 : 0.01);
    };
    if (seasonal) {
      setup.prices = predict::make_seasonal_naive(12);
      setup.past_slots = 36;
    }
    SitePoolsOptions options;
    options.planning.objective = {0.0, 0.0, 1.0};
    SitesDriver driver(std::move(setup), options);
    EXPECT_EQ(SitesDriver::at_site(driver.ask(Instant(), {0.0, 0.0}), 0) > 0, seasonal);
  }
}

TEST(SitePools, WorkersAreAsLargeAsNodesAndTheLargestComeFirst) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.nodes = {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {1, 0, 8}};
  setup.demand_at_start = {8.0, 8.0};
  SitesDriver driver(std::move(setup));
  const Plan plan = driver.ask(Instant(), {0.0, 0.0});
  int small = 0;
  std::vector<std::size_t> modes;
  for (const auto& target : plan.instances) {
    modes.push_back(target.shape % 2);
    if (target.shape == 0) small += target.count;
    EXPECT_NE(target.shape, 1U) << "no node of the first site has two GPUs";
  }
  EXPECT_EQ(small, 3);
  EXPECT_TRUE(std::ranges::is_sorted(modes, std::greater{}));
}

TEST(SitePools, WorkersAreOfShapesThatTheirSiteHas) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.shapes[0][1].reset();  // and of one GPU a worker takes 1.1 times as many GPUs
  SitesDriver driver(std::move(setup));
  const Plan plan = driver.ask(Instant(), {0.0, 0.0});
  int workers = 0;
  for (const auto& pool : driver.policy.newest()->pools) workers += pool.workers;
  int started = 0;
  for (const auto& target : plan.instances) started += target.count;
  EXPECT_GT(started, 0);
  EXPECT_EQ(started, workers) << "what is planned is started";
}

TEST(SitePools, ASiteThatIsCutOffIsPlannedAroundAtOnce) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitesDriver driver(two_sites(grams));
  Plan plan = driver.ask(Instant(), {0.0, 0.0}, {{NodeId(0), 8, 0, true}, {NodeId(1), 8, 8, true}});
  EXPECT_EQ(SitesDriver::at_site(plan, 1), 0);
  plan = driver.ask(Instant() + kTick, {3.0, 3.0}, {{NodeId(0), 8, 0, false}, {NodeId(1), 8, 8, true}});
  EXPECT_EQ(SitesDriver::at_site(plan, 0), 0);
  EXPECT_GT(SitesDriver::at_site(plan, 1), 0);
}

/// One site is clean for the first five minutes of every hour alone, the other always the same.
std::optional<double> hourly(std::size_t site, Instant at) {
  const std::int64_t slot = at.ns() / Span::s(300).ns();
  return site == 1 ? 500.0 : (slot % 12 + 12) % 12 == 0 ? 100.0 : 900.0;
}

TEST(SitePools, ForecastsOfIntensityReachThePlan) {
  enum { Last, Seasonal, Given };
  for (const auto outlook : {Last, Seasonal, Given}) {
    const bool seasonal = outlook == Seasonal;
    std::map<std::size_t, std::optional<double>> grams;
    auto setup = two_sites(grams);
    setup.intensity = hourly;
    setup.outlook_is_given = outlook == Given;
    if (seasonal) {
      setup.emissions = predict::make_seasonal_naive(12);
      setup.past_slots = 36;
    }
    SitesDriver driver(std::move(setup));
    const Plan plan = driver.ask(Instant(), {0.0, 0.0});
    EXPECT_EQ(SitesDriver::at_site(plan, 0) > 0, outlook == Last)
        << "clean now, and dirty for the rest of the half hour";
    const auto& intensity = driver.policy.problem().sites[0].intensity;
    ASSERT_EQ(intensity.size(), 6U);
    EXPECT_DOUBLE_EQ(intensity[0].value(), 100.0);
    EXPECT_DOUBLE_EQ(intensity[1].value(), outlook == Last ? 100.0 : 900.0);
  }
}

TEST(SitePools, ForecastsOfTrafficReachThePlan) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.traffic = predict::make_seasonal_naive(12);
  SitesDriver driver(std::move(setup));
  const auto rate = [](Instant at) { return at.ns() / Span::s(300).ns() % 12 == 6 ? 9.0 : 1.0; };
  Instant now;
  for (; now <= Instant() + Span::s(3 * 3600 + 1800); now = now + kTick) {
    static_cast<void>(driver.ask(now, {rate(now - kTick), 1.0}));
  }
  const auto& demand = driver.policy.problem().partitions[0].types[0].demand_per_s;
  EXPECT_DOUBLE_EQ(demand[0], 9.0) << "as in the same slot of the hours before; the last slot had no more than 1";
  EXPECT_DOUBLE_EQ(demand[2], 1.0);
}

TEST(SitePools, CleanestTakesAsFewSitesAsCarryTheLoad) {
  std::map<std::size_t, std::optional<double>> grams{{0, 500.0}, {1, 490.0}};
  SitePoolsOptions options;
  options.cleanest = true;
  for (const double demand : {2.0, 9.0}) {
    auto setup = two_sites(grams);
    setup.demand_at_start = {demand, demand};
    SitesDriver driver(std::move(setup), options);
    const Plan plan = driver.ask(Instant(), {0.0, 0.0});
    EXPECT_GT(SitesDriver::at_site(plan, 1), 0);
    EXPECT_EQ(SitesDriver::at_site(plan, 0) > 0, demand > 5.0) << "one site carries 16 a second with its margin";
  }
}

TEST(SitePools, AClassNobodyIsExpectedOfSharesALargerOnesWorkers) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  for (const std::size_t served : {0U, 1U}) {
    auto setup = two_sites(grams);
    setup.demand_at_start = {0.0, 0.0};
    setup.demand_at_start[served] = 3.0;
    SitesDriver driver(std::move(setup));
    const Plan plan = driver.ask(Instant(), {0.0, 0.0});
    ASSERT_EQ(plan.weights.size(), 2U);
    for (const auto& weight : plan.weights) EXPECT_EQ(weight.pool, PoolId(static_cast<std::int32_t>(served)));
  }
}

TEST(SitePools, PooledAnyRequestGoesToAnyWorkerAndTheFirstPlanMayStay) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitePoolsOptions options;
  options.pooled = true;
  options.replans = false;
  SitesDriver driver(two_sites(grams), options);
  const Plan plan = driver.ask(Instant(), {0.0, 0.0});
  for (const auto& target : plan.instances) EXPECT_EQ(target.pool, PoolId(0));
  for (const auto& weight : plan.weights) EXPECT_EQ(weight.pool, PoolId(0));
  for (Instant now; now <= Instant() + Span::s(4000); now = now + kTick) driver.ask(now, {6.0, 6.0});
  EXPECT_EQ(driver.policy.plans(), 1);
}

/// Who does not tell classes apart has no worker for each of them.
TEST(SitePools, PooledWorkersAreCountedForTheMix) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  const auto workers = [&](bool pooled, std::vector<double> demand, double of_second) {
    auto setup = two_sites(grams);
    setup.demand_at_start = std::move(demand);
    for (auto& type : setup.problem.partitions[0].types) type.ratings[1].reset();
    setup.problem.partitions[0].types[1].ratings[0]->max_per_s = of_second;
    SitePoolsOptions options;
    options.pooled = pooled;
    options.planning.alpha = 1.0;
    SitesDriver driver(std::move(setup), options);
    int all = 0;
    for (const auto& target : driver.ask(Instant(), {0.0, 0.0}).instances) all += target.count;
    return all;
  };
  EXPECT_EQ(workers(false, {1.0, 0.1}, 2.0), 2) << "one each";
  EXPECT_EQ(workers(true, {1.0, 0.1}, 2.0), 1);
  // 3 of the first take one and a half workers, 1 of the second half a one.
  EXPECT_EQ(workers(true, {3.0, 1.0}, 2.0), 2);
  EXPECT_EQ(workers(true, {3.0, 1.0}, 1.5), 3);
  EXPECT_EQ(workers(true, {3.0, 1.0}, 0.0), 0) << "who cannot serve the second is of no use to a mix with it";
  EXPECT_EQ(workers(true, {3.0, 0.0}, 0.0), 2);
}

TEST(SitePools, WhatNoSiteCanCarryIsPlannedAsFarAsItGoes) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.demand_at_start = {100.0, 100.0};
  SitesDriver driver(std::move(setup));
  const Plan plan = driver.ask(Instant(), {0.0, 0.0});
  EXPECT_STREQ(plan.reason, "the sites cannot carry the demand: as much as they can");
  EXPECT_EQ(driver.policy.newest()->status, plan::PoolsStatus::Shed);
  EXPECT_NE(plan.problem.find("of 100/s of S"), std::string::npos) << plan.problem;
  EXPECT_NE(plan.problem.find("of 100/s of L"), std::string::npos) << plan.problem;
  EXPECT_NE(plan.problem.find("A100 GPUs (16 in all)"), std::string::npos) << plan.problem;
}

TEST(SitePools, WhatThePublishedFormulationHasNoPlanForIsPlannedByTheOther) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.demand_at_start = {100.0, 100.0};
  SitePoolsOptions options;
  options.planning.formulation = plan::PoolsFormulation::Published;
  SitesDriver driver(std::move(setup), options);
  const Plan shed = driver.ask(Instant(), {0.0, 0.0});
  EXPECT_STREQ(shed.reason, "the sites cannot carry the demand: as much as they can");
  EXPECT_NE(shed.problem.find("A100 GPUs (16 in all) cannot all hold"), std::string::npos) << shed.problem;
  EXPECT_FALSE(shed.instances.empty());
}

TEST(SitePools, WhyThereIsNoPlanIsSaid) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitePoolsOptions options;
  options.planning.alpha = 0.5;
  SitesDriver wrong(two_sites(grams), options);
  const Plan none = wrong.ask(Instant(), {0.0, 0.0});
  EXPECT_STREQ(none.reason, "no plan found");
  EXPECT_EQ(none.problem, "alpha: is 0.5; it must be at least 1 and below 100");
}

/// 36 requests a second are what 16 GPUs carry, 32.7 with the margin.
TEST(SitePools, TheReasonNamesHowFarThePlanHadToGiveIn) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  const auto asked = [&](double each, bool up) {
    auto setup = two_sites(grams);
    setup.demand_at_start = {each, each};
    SitesDriver driver(std::move(setup));
    const Plan plan = driver.ask(Instant(), {0.0, 0.0}, {{NodeId(0), 8, 8, up}, {NodeId(1), 8, 8, up}});
    return std::tuple(std::string(plan.reason), driver.policy.newest()->status, driver.policy.newest()->binding.size(),
                      plan.instances.size());
  };
  const auto [good, planned, free, some] = asked(16.0, true);
  EXPECT_EQ(good, "pools of least carbon for the next epoch");
  EXPECT_EQ(planned, plan::PoolsStatus::Planned);
  EXPECT_EQ(free, 0U);
  const auto [tight, relaxed, binding, all] = asked(17.5, true);
  EXPECT_EQ(tight, "margin relaxed: the sites cannot keep it");
  EXPECT_EQ(relaxed, plan::PoolsStatus::Relaxed);
  EXPECT_GT(binding, 0U);
  const auto [none, shed, why, nobody] = asked(1.0, false);
  EXPECT_EQ(none, "the sites cannot carry the demand: as much as they can") << "every site is cut off";
  EXPECT_EQ(shed, plan::PoolsStatus::Shed);
  EXPECT_GT(why, 0U);
  EXPECT_EQ(nobody, 0U);
}

TEST(SitePools, WhileRequestsAreLateMoreWorkersArePlannedAndNoneRefused) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitePoolsOptions options;
  options.out_of_turn = true;
  options.reserve = {.gain = 0.1, .late = 0.01, .most = 0.5};
  const auto alpha = [&](double late, double per_s) {
    auto setup = two_sites(grams);
    setup.may_be_late = {0.01, 0.03};
    setup.demand_at_start = {per_s, per_s};
    SitesDriver driver(std::move(setup), options);
    Plan plan;
    for (int minute = 0; minute <= 30; ++minute) {
      TurnedOut fresh;
      for (const int c : {0, 1}) {
        fresh.add(ClassId(c), ClassId(c), 1000);
        fresh.add_late(ClassId(c), static_cast<std::int64_t>(1000.0 * late));
      }
      const std::vector<double> rates{per_s, per_s};
      policy::ScalingView view{Instant() + Span::s(60 * minute), rates, {}};
      view.turned_out = &fresh;
      plan = driver.policy.plan(view);
    }
    EXPECT_EQ(weight_of(plan, 0), 1.0);
    EXPECT_EQ(weight_of(plan, 1), 1.0);
    return driver.policy.newest()->alpha;
  };
  EXPECT_DOUBLE_EQ(alpha(0.02, 3.0), 1.1) << "0.01, and 0.02 of the second class late alone: as many as may be";
  EXPECT_NEAR(alpha(0.12, 3.0), 1.1 / (1.0 - 0.3), 1e-9);
  EXPECT_LT(alpha(0.12, 16.0), 1.13) << "all that the sites can keep";
}

RC_GTEST_PROP(SitePools, NegativeIntensityStartsNobodyForCredit, ()) {
  std::map<std::size_t, std::optional<double>> grams;
  for (std::size_t n = 0; n < 2; ++n) grams[n] = *rc::gen::inRange(-8000, 1000);
  auto setup = two_sites(grams);
  setup.demand_at_start = {*rc::gen::inRange(0, 120) / 10.0, *rc::gen::inRange(0, 120) / 10.0};
  SitesDriver driver(std::move(setup));
  static_cast<void>(driver.ask(Instant(), {0.0, 0.0}));
  const plan::PoolsPlan* made = driver.policy.newest();
  RC_ASSERT(made != nullptr);
  if (made->status != plan::PoolsStatus::Planned) return;
  // Without any one of its workers the plan would not carry the peak with its margin.
  const auto& types = driver.policy.problem().partitions[0].types;
  for (const auto& pool : made->pools) {
    double capacity = 0.0;
    for (const auto& other : made->pools) {
      if (other.type == pool.type) capacity += other.workers * types[other.type].ratings[other.mode]->max_per_s;
    }
    const double without = capacity - types[pool.type].ratings[pool.mode]->max_per_s;
    RC_ASSERT(without < 1.1 * types[pool.type].demand_per_s.front() + 1e-6);
  }
}

}  // namespace
}  // namespace wattle::managers
