// Every shipped recipe loads, and is valid for every scenario with GPUs that it names no clock of.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "calibrate/sweet_clock.h"
#include "config/load.h"
#include "config/make_step_model.h"
#include "policy/frequency/eco_freq.h"
#include "systems/compose.h"
#include "systems/recipe.h"

namespace wattle::systems {
namespace {

using config::Project;

const Project kProject({WATTLE_SOURCE_DIR});

TEST(ShippedRecipes, EachLoadsAndSuitsEveryScenarioUnlessItNamesClocksOfAnA100) {
  for (const std::string& recipe_name : kProject.names(Project::Kind::Recipe)) {
    const auto recipe = load_recipe(recipe_name, {}, kProject);
    ASSERT_TRUE(recipe) << recipe.error().message();
    EXPECT_EQ(recipe->recipe.name, recipe_name);
    EXPECT_FALSE(recipe->recipe.description.empty()) << recipe_name;
    for (const std::string& name : kProject.names(Project::Kind::Scenario)) {
      const auto scenario = config::load_scenario(name, {}, kProject);
      ASSERT_TRUE(scenario) << scenario.error().message();
      const bool a100 = scenario->gpus.front().name.starts_with("a100");
      if (recipe_name.ends_with("-5l") && !a100) continue;
      const auto suits = check_recipe_on(*recipe, *scenario);
      EXPECT_TRUE(suits) << name << ": " << suits.error().message();
    }
  }
}

/// VoltanaLLM's two clocks of an A100-80G, by name: reproductions depend on them. The 40 GB card has slower memory, so
/// its decode optimum is lower: somewhere in EnergyLLM's flat part, 810 to 1050 MHz, where the energy of its batches
/// (power x time) is within 9 % of the least.
TEST(ShippedRecipes, SweetAndMaximumOfTheA100AreThePapersClocks) {
  const auto eco = load_recipe("eco-freq", {}, kProject);
  ASSERT_TRUE(eco) << eco.error().message();
  int seen = 0;
  for (const std::string& name : kProject.names(Project::Kind::Scenario)) {
    const auto scenario = config::load_scenario(name, {}, kProject);
    ASSERT_TRUE(scenario) << scenario.error().message();
    for (std::size_t p = 0; p < scenario->gpus.size(); ++p) {
      if (!scenario->gpus[p].name.starts_with("a100")) continue;
      const auto& pool = scenario->scenario.pools[p];
      const auto engine = config::engine_of(scenario->scenario, pool);
      const auto model = config::make_step_model(scenario->gpus[p], scenario->llm, pool.tensor_parallel, engine);
      ASSERT_TRUE(model) << model.error().message();
      InstanceSpec spec;
      spec.role = pool.role;
      spec.gpu = scenario->gpus[p];
      calibrate::set_sweet_spot(spec, *model, engine);
      const auto clocks = options_of<policy::EcoFreqOptions>(frequency_of(eco->recipe, pool.role)).clocks;
      ASSERT_EQ(clocks.size(), 2U);
      if (spec.gpu.name == "a100-80g") {
        EXPECT_EQ(clocks[0].on(spec), MegaHertz{1005}) << name;
        ++seen;
      } else {
        EXPECT_GE(clocks[0].on(spec), MegaHertz{810}) << name;
        EXPECT_LE(clocks[0].on(spec), MegaHertz{1050}) << name;
      }
      EXPECT_EQ(clocks[1].on(spec), MegaHertz{1410}) << name;
    }
  }
  EXPECT_GT(seen, 3);
}

/// The search is from coarse to fine: here against all clocks, on every GPU and model of the scenarios.
TEST(SweetClock, TakesTheLeastEnergyOfAllClocks) {
  for (const std::string& name : kProject.names(Project::Kind::Scenario)) {
    const auto scenario = config::load_scenario(name, {}, kProject);
    ASSERT_TRUE(scenario) << scenario.error().message();
    const auto& pool = scenario->scenario.pools.back();
    const auto engine = config::engine_of(scenario->scenario, pool);
    const auto model = config::make_step_model(scenario->gpus.back(), scenario->llm, pool.tensor_parallel, engine);
    ASSERT_TRUE(model) << model.error().message();
    StepShape prompts;
    prompts.prefill_tokens = 2048;
    prompts.prefill_requests = 8;
    prompts.prefill_context_tokens = 2048 * 128;
    const std::int64_t capacity = model->kv_blocks() * engine.block_size;
    const std::int64_t batch = std::min<std::int64_t>(128, capacity / 1024);
    for (const Role role : {Role::Prefill, Role::Decode}) {
      const auto effort = [&](MegaHertz clock) {
        if (role == Role::Prefill) {
          const auto step = model->mixed(prompts, clock);
          return static_cast<double>(step.duration) * static_cast<double>(step.power.value());
        }
        const auto line = model->decode(static_cast<std::int32_t>(batch), batch * 1024, clock);
        return static_cast<double>(line.base + line.slope * batch * 1024) * static_cast<double>(line.power.value());
      };
      const auto clocks = supported_clocks(model->gpu());
      const double least = effort(*std::ranges::min_element(clocks, {}, effort));
      EXPECT_LT(effort(calibrate::sweet_clock(*model, engine, role)), 1.001 * least) << name;
    }
  }
}

}  // namespace
}  // namespace wattle::systems
