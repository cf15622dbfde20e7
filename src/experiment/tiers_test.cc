// Tiers of one service under DynamoLLM's managers, from arrivals to energy: pools of their own where that saves.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/locate.h"
#include "experiment/simulate.h"
#include "systems/recipe.h"

namespace wattle::experiment {
namespace {

journal::RunSummary run_of(const std::string& recipe_name, bool by_tier, std::vector<config::Override> scenario) {
  scenario.push_back({"workload.requests", "9000"});
  const auto loaded = config::load_scenario("two-tiers", scenario, config::project());
  const auto recipe = systems::load_recipe(recipe_name,
                                           {{"classify.by_tier", by_tier ? "true" : "false"},
                                            {"scaling.profiled_together", "1"}},  // takes less time to measure
                                           config::project());
  EXPECT_TRUE(loaded && recipe);
  SimulateOptions options;
  options.check_invariants = true;
  const auto run = run_simulation(*loaded, *recipe, options);
  EXPECT_TRUE(run) << run.error().message();
  return *run;
}

TEST(TwoTiers, PoolsOfTheirOwnTakeLessEnergyAndKeepBothTiers) {
  const auto split = run_of("dynamollm", true, {});
  const auto one = run_of("dynamollm", false, {});
  EXPECT_EQ(split.requests.finished, split.requests.arrived);
  EXPECT_LT(split.energy.total.value(), 0.97 * one.energy.total.value());
  for (const std::size_t tier : {0U, 1U}) EXPECT_GT(split.service_by_tier.at(tier).attainment, 0.97) << tier;
}

TEST(TwoTiers, ALoosePoolsClocksFollowItsOwnObjectives) {
  // EcoFreq chooses them by what each instance has to keep.
  const std::vector<config::Override> busy{{"workload.rate_per_s", "50"}};
  const auto split = run_of("dynamollm-ours", true, busy);
  const auto one = run_of("dynamollm-ours", false, busy);
  EXPECT_EQ(split.requests.finished, split.requests.arrived);
  EXPECT_LT(split.energy.total.value(), 0.93 * one.energy.total.value());
  for (const std::size_t tier : {0U, 1U}) EXPECT_GT(split.service_by_tier.at(tier).attainment, 0.97) << tier;
}

TEST(TwoTiers, ShareAPoolWhereThatTakesLess) {
  // Hardly any load: an instance of their own costs more than the stricter clock.
  const std::vector<config::Override> little{{"workload.rate_per_s", "4"}};
  const auto asked = run_of("dynamollm", true, little);
  const auto one = run_of("dynamollm", false, little);
  EXPECT_NEAR(asked.energy.total.value(), one.energy.total.value(), 0.01 * one.energy.total.value());
}

TEST(TwoTiers, OneTierIsAsWithoutThem) {
  const auto scenario = [&](bool by_tier) {
    const auto loaded = config::load_scenario("synthetic-poisson", {{"workload.requests", "500"}}, config::project());
    const auto recipe =
        systems::load_recipe("dynamollm", {{"classify.by_tier", by_tier ? "true" : "false"}}, config::project());
    return run_simulation(*loaded, *recipe, {}).value();
  };
  EXPECT_EQ(scenario(true).energy.total.value(), scenario(false).energy.total.value());
}

}  // namespace
}  // namespace wattle::experiment
