// Partitions that SitePools chooses among.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "managers/site_pools_rig_test.h"

namespace wattle::managers {
namespace {

/// Two partitions of three classes: the middle one belongs to the small type of the first, the large one of the second.
SitePoolsSetup two_partitions(std::map<std::size_t, std::optional<double>>& grams, bool by_class) {
  auto setup = two_sites(grams);
  setup.problem.partitions.push_back(setup.problem.partitions.front());
  setup.type_of = {{0, 0, 1}, {0, 1, 1}};
  setup.demand_at_start = {1.0, 1.0, 1.0};
  auto& partitions = setup.problem.partitions;
  if (!by_class) {
    // A request of the large type takes ten times the energy.
    for (auto& partition : partitions) {
      for (auto& rating : partition.types[1].ratings) rating->peak = rating->peak * 10.0;
    }
    return setup;
  }
  // The middle class is three times as costly to carry as either other one: in a type with a class of which much comes.
  for (int c = 0; c < 3; ++c) {
    setup.classes.push_back(partitions[0].types[0]);
    for (auto& rating : setup.classes.back().ratings) rating->max_per_s = c == 1 ? 0.5 : 4.0;
  }
  return setup;
}

TEST(SitePools, EachPlanChoosesOnePartitionAndClassesFollowIt) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  const auto pools = [](const Plan& plan) {
    std::vector<int> of;
    for (const auto& w : plan.weights) of.push_back(w.pool.value());
    return of;
  };
  for (const bool first_is_costly : {false, true}) {
    auto setup = two_partitions(grams, false);
    if (first_is_costly) {
      for (auto& rating : setup.problem.partitions[0].types[0].ratings) rating->peak = rating->peak * 50.0;
    }
    SitesDriver driver(std::move(setup));
    const Plan plan = driver.ask(Instant(), {0.0});
    EXPECT_EQ(driver.policy.newest()->partition, first_is_costly ? 1U : 0U);
    EXPECT_EQ(pools(plan), first_is_costly ? (std::vector{0, 1, 1}) : (std::vector{0, 0, 1}));
    const auto& partitions = driver.policy.problem().partitions;
    EXPECT_DOUBLE_EQ(partitions[0].types[0].demand_per_s.front(), 2.0) << "of two classes";
    EXPECT_DOUBLE_EQ(partitions[1].types[0].demand_per_s.front(), 1.0);
    EXPECT_DOUBLE_EQ(partitions[1].types[1].demand_per_s.front(), 2.0);
  }
}

TEST(SitePools, APeakOfATypeIsThatOfItsClassesTogether) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitesDriver driver(two_partitions(grams, false));
  Instant now;
  for (; now <= Instant() + Span::s(1800); now = now + kTick) {
    const bool even = now.ns() / kTick.ns() % 2 == 0;
    static_cast<void>(driver.ask(now, {even ? 3.0 : 1.0, even ? 1.0 : 3.0, 1.0}));
  }
  const auto& partitions = driver.policy.problem().partitions;
  EXPECT_DOUBLE_EQ(partitions[0].types[0].demand_per_s.front(), 4.0) << "not 6: their peaks never met";
  EXPECT_DOUBLE_EQ(partitions[1].types[1].demand_per_s.front(), 4.0);
}

TEST(SitePools, TypesAreRatedByTheMixOfTheirClasses) {
  std::map<std::size_t, std::optional<double>> grams{{0, 100.0}, {1, 500.0}};
  SitesDriver driver(two_partitions(grams, true));
  static_cast<void>(driver.ask(Instant(), {0.0}));
  const auto& partitions = driver.policy.problem().partitions;
  // Half of each: a request takes (1/4 + 1/0.5) / 2 of a worker's second.
  EXPECT_NEAR(partitions[0].types[0].ratings[0]->max_per_s, 2.0 / (0.25 + 2.0), 1e-9);
  EXPECT_NEAR(partitions[0].types[1].ratings[0]->max_per_s, 4.0, 1e-9);
  EXPECT_NEAR(partitions[1].types[0].ratings[0]->max_per_s, 4.0, 1e-9);
  Instant now;
  for (; now <= Instant() + Span::s(1800); now = now + kTick) static_cast<void>(driver.ask(now, {3.0, 1.0, 0.0}));
  EXPECT_NEAR(partitions[0].types[0].ratings[0]->max_per_s, 4.0 / (0.75 + 2.0), 1e-9)
      << "three of one, one of the other";
  EXPECT_NEAR(partitions[1].types[1].ratings[0]->max_per_s, 0.5, 1e-9);
}

}  // namespace
}  // namespace wattle::managers
