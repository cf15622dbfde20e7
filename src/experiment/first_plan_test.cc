// A fleet that managers size begins as their first plan says.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "base/file.h"
#include "config/locate.h"
#include "experiment/load_profile.h"
#include "experiment/simulate.h"
#include "systems/recipe.h"

namespace wattle::experiment {
namespace {

TEST(FirstPlan, ServesFromTheFirstSecondWhateverPoolsTheScenarioHas) {
  // The scenario's three pools are not those of the managers, whose first epoch after the initial plan begins at 60 s.
  const auto loaded = config::load_scenario("azure-conv-8-pools", {{"workload.duration_s", "30"}}, config::project());
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto recipe = systems::load_recipe("dynamollm", {}, config::project());
  ASSERT_TRUE(recipe) << recipe.error().message();
  const auto run = run_simulation(*loaded, *recipe, {});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_GT(run->requests.arrived, 50);
  EXPECT_EQ(run->requests.finished, run->requests.arrived);
}

TEST(FirstPlan, ServesRequestsWhoseObjectiveNoConfigurationMeets) {
  const auto loaded = config::load_scenario("azure-conv-8-pools", {{"workload.duration_s", "30"}, {"slo.itl_ms", "2"}},
                                            config::project());
  const auto recipe = systems::load_recipe("dynamollm", {}, config::project());
  ASSERT_TRUE(loaded && recipe);
  const auto run = run_simulation(*loaded, *recipe, {});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_GT(run->requests.arrived, 50);
  EXPECT_EQ(run->requests.finished, run->requests.arrived);
}

TEST(FirstPlan, CarriesTheLoadThatItsNodesWereCountedFor) {
  // L40S without NVLink: four instances of one GPU carry almost three times the load of one instance of four, and
  // `dynamollm-ours` plans with that. Its second plan comes at 60 s.
  const auto file = std::filesystem::path(testing::TempDir()) / "wattle_first_minute.toml";
  ASSERT_TRUE(write_file(file.string(), R"(
name = "first-minute"
llm = "llama-3.1-8b"
[workload]
rate_per_s = 60
requests = 24000
duration_s = 58
prompt_mean = 700
prompt_std = 500
output_mean = 150
output_std = 120
[slo]
ttft_ms = 1000
tbt_ms = 60
[[node]]
gpus = 4
count = 4
[[fleet]]
gpu = "l40s"
tensor_parallel = 4
count = 4
[[fleet]]
gpu = "l40s"
tensor_parallel = 1
count = 0
)"));
  const auto loaded = config::load_scenario(file.string(), {}, config::project());
  std::filesystem::remove(file);
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto recipe = systems::load_recipe("dynamollm-ours", {}, config::project());
  ASSERT_TRUE(recipe) << recipe.error().message();
  const auto run = run_simulation(*loaded, *recipe, {});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_GT(run->requests.arrived, 3000);
  EXPECT_EQ(run->requests.finished, run->requests.arrived);
  EXPECT_GT(run->slo.all, 0.97);
}

TEST(ScenarioRequests, AClassOfNobodyIsRefusedWhereItsBordersAre) {
  const auto loaded =
      config::load_scenario("synthetic-poisson", {{"classes.output_below", "100000"}}, config::project());
  const auto none = scenario_requests(loaded.value(), {}, "");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().where, "--set classes.output_below");
  EXPECT_NE(none.error().what.find("no request of class L, which [classes] makes"), std::string::npos)
      << none.error().message();
  EXPECT_NE(scenario_requests(loaded.value(), {{}, {100'000}}, "").error().what.find("[classify]"), std::string::npos);
}

TEST(FirstPlan, AFleetThatIsNotScaledIsRefusedBeforeItsLoadIsMeasured) {
  // Of the class beyond that border there is no request, so that no load can be measured.
  const auto loaded = config::load_scenario(
      "azure-conv-2p2d",
      {{"workload.trace", ""}, {"workload.synthetic", "azure-conv"}, {"classes.prompt_below", "1000000"}},
      config::project());
  const auto recipe = systems::load_recipe("dynamollm-ours", {}, config::project());
  ASSERT_TRUE(loaded && recipe);
  const auto run = prepare_run(*loaded, *recipe, "");
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().what.find("only colocated instances are scaled"), std::string::npos) << run.error().message();
}

TEST(ScenarioRequests, AreHeldToTheMeanGapThatTheyAreJudgedBy) {
  const auto limit = [](const std::vector<config::Override>& set) {
    const auto loaded = config::load_scenario("synthetic-poisson", set, config::project());
    return scenario_requests(loaded.value(), {}, "").value().front().limits.tbt;
  };
  EXPECT_EQ(limit({}), Span::ms(60)) << "slo.itl_ms";
  EXPECT_EQ(limit({{"slo.tbt_ms", "40"}}), Span::ms(40));
  EXPECT_EQ(limit({{"slo.tbt_ms", "80"}}), Span::ms(60)) << "the tighter of the two";
}

}  // namespace
}  // namespace wattle::experiment
