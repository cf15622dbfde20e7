// A fleet that managers size begins as their first plan says.
#include <gtest/gtest.h>

#include "config/locate.h"
#include "experiment/simulate.h"
#include "systems/recipe.h"

namespace wattle::experiment {
namespace {

TEST(FirstPlan, ServesFromTheFirstSecondWhateverPoolsTheScenarioHas) {
  // The managers' own pool for each class is none of the scenario's three; their first epoch after it comes at 60 s.
  const auto loaded = config::load_scenario("azure-conv-8-pools", {{"workload.duration_s", "30"}}, config::project());
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto recipe = systems::load_recipe("dynamollm", {}, config::project());
  ASSERT_TRUE(recipe) << recipe.error().message();
  const auto run = run_simulation(*loaded, *recipe, {});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_GT(run->requests.arrived, 50);
  EXPECT_EQ(run->requests.finished, run->requests.arrived);
}

}  // namespace
}  // namespace wattle::experiment
