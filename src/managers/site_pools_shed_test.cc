// What SitePools sheds: of too much load, and from a cut-off until its plan serves.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "managers/site_pools_rig_test.h"

namespace wattle::managers {
namespace {

TEST(SitePools, WhatAPlanShedsItsWeightsLackByTheLoadThereIs) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.demand_at_start = {100.0, 100.0};
  SitesDriver driver(std::move(setup));
  Plan plan = driver.ask(Instant(), {0.0, 0.0});
  ASSERT_EQ(driver.policy.newest()->status, plan::PoolsStatus::Shed);
  // 36 requests a second are what 16 GPUs carry at most.
  EXPECT_NEAR(weight_of(plan, 0) + weight_of(plan, 1), 0.36, 0.01) << "by what is expected, before any load is seen";
  EXPECT_NE(plan.problem.find("/s of S refused"), std::string::npos) << plan.problem;
  const double carried = 100.0 * weight_of(plan, 0);
  plan = driver.ask(Instant() + kTick, {2.0 * carried, 0.0});
  EXPECT_NEAR(weight_of(plan, 0), 0.5, 1e-9);
  EXPECT_DOUBLE_EQ(weight_of(plan, 1), 1.0);
  EXPECT_EQ(plan.problem.find("/s of L refused"), std::string::npos) << plan.problem;
  plan = driver.ask(Instant() + kTick * 2, {carried, 1.0});
  EXPECT_NEAR(weight_of(plan, 0), 1.0, 1e-9) << "nothing is refused that is carried";
}

TEST(SitePools, FromACutOffUntilThePlanServesWhatServesIsTakenIn) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitesDriver driver(two_sites(grams));
  const std::vector<NodeView> up{{NodeId(0), 8, 0, true}, {NodeId(1), 8, 8, true}};
  const std::vector<NodeView> cut{{NodeId(0), 8, 0, false}, {NodeId(1), 8, 8, true}};
  Plan plan = driver.ask(Instant(), {0.0, 0.0}, up);
  // A worker of two GPUs carries 4.5 a second.
  const auto first = both(serving(1, 1, 0), serving(1, 1, 1));
  plan = driver.ask(Instant() + kTick, {9.0, 3.0}, up, first);
  EXPECT_DOUBLE_EQ(weight_of(plan, 0), 1.0) << "no fault: a burst waits";
  plan = driver.ask(Instant() + kTick * 2, {9.0, 3.0}, cut);
  EXPECT_DOUBLE_EQ(weight_of(plan, 0), 0.0) << "nobody serves";
  EXPECT_DOUBLE_EQ(weight_of(plan, 1), 0.0);
  EXPECT_NE(plan.problem.find("9 of 9/s of S refused until all that is planned serves"), std::string::npos)
      << plan.problem;
  std::map<std::size_t, std::vector<FleetMember>> planned;
  for (const auto& target : plan.instances) {
    const auto pool = static_cast<std::size_t>(target.pool->value());
    planned[pool] = both(planned[pool], serving(target.count, target.shape, target.pool->value()));
  }
  plan = driver.ask(Instant() + kTick * 3, {9.0, 3.0}, cut, both(serving(1, 3, 0), planned[1]));
  EXPECT_DOUBLE_EQ(weight_of(plan, 0), 0.5);
  EXPECT_DOUBLE_EQ(weight_of(plan, 1), 1.0);
  plan = driver.ask(Instant() + kTick * 4, {90.0, 30.0}, cut, both(planned[0], planned[1]));
  EXPECT_DOUBLE_EQ(weight_of(plan, 0), 1.0) << "all that is planned serves: the plan is as any other";
  EXPECT_EQ(plan.problem, "");
  plan = driver.ask(Instant() + kTick * 5, {90.0, 30.0}, cut);
  EXPECT_DOUBLE_EQ(weight_of(plan, 0), 1.0);
}

/// The release has no answer to a window without a plan.
TEST(SitePools, PublishedACutOffThatLeavesTooLittleSheds) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  auto setup = two_sites(grams);
  setup.demand_at_start = {12.0, 12.0};
  SitePoolsOptions options;
  options.planning.formulation = plan::PoolsFormulation::Published;
  SitesDriver driver(std::move(setup), options);
  Plan plan = driver.ask(Instant(), {0.0, 0.0}, {{NodeId(0), 8, 0, true}, {NodeId(1), 8, 8, true}});
  ASSERT_EQ(driver.policy.newest()->status, plan::PoolsStatus::Planned);
  plan = driver.ask(Instant() + kTick, {12.0, 12.0}, {{NodeId(0), 8, 0, false}, {NodeId(1), 8, 8, true}});
  EXPECT_EQ(driver.policy.newest()->status, plan::PoolsStatus::Shed);
  EXPECT_EQ(SitesDriver::at_site(plan, 0), 0);
  EXPECT_GT(SitesDriver::at_site(plan, 1), 0);
  std::vector<FleetMember> all;
  for (const auto& target : plan.instances) {
    all = both(all, serving(target.count, target.shape, target.pool->value()));
  }
  plan = driver.ask(Instant() + kTick * 2, {12.0, 12.0}, {{NodeId(0), 8, 0, false}, {NodeId(1), 8, 8, true}}, all);
  EXPECT_NEAR(12.0 * (weight_of(plan, 0) + weight_of(plan, 1)), 18.0, 0.5) << "what one site carries";
  plan = driver.ask(Instant() + kTick * 3, {12.0, 12.0}, {{NodeId(0), 8, 0, false}, {NodeId(1), 8, 0, false}});
  EXPECT_DOUBLE_EQ(weight_of(plan, 0) + weight_of(plan, 1), 0.0) << "every site is cut off";
  EXPECT_FALSE(plan.instances.empty()) << "wanted again as soon as a site is there";
}

}  // namespace
}  // namespace wattle::managers
