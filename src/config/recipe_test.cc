// Recipes: shorthands, modes, what is refused, and whether clocks suit a fleet.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/fleet_check.h"
#include "config/load.h"
#include "config/test_texts.h"

namespace wattle::config {
namespace {

using testing::edited;
using testing::kRecipe;

Result<LoadedRecipe> load(const std::string& text, const std::vector<std::string>& set = {}) {
  const auto overrides = parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return recipe_from_text(text, "r.toml", *overrides);
}

LoadedScenario fleet(const std::string& gpu) {
  auto loaded = scenario_from_text(edited(testing::kScenario, "a100-80g", gpu), "s.toml", {}, testing::project());
  EXPECT_TRUE(loaded) << loaded.error().message();
  return std::move(*loaded);
}

TEST(RecipeText, AShorthandSetsBothPhasesAndAPhaseRefinesIt) {
  const auto loaded = load(kRecipe);
  ASSERT_TRUE(loaded) << loaded.error().message();
  const Recipe& r = loaded->recipe;
  EXPECT_EQ(r.name, "r");
  EXPECT_EQ(r.prefill_frequency.policy, "eco-freq");
  EXPECT_EQ(r.decode_frequency.policy, "eco-freq");
  EXPECT_EQ(r.decode_frequency.clocks, r.prefill_frequency.clocks);
  EXPECT_EQ(r.prefill_frequency.margin, 0.0);
  EXPECT_EQ(r.decode_frequency.margin, 0.1);
}

TEST(RecipeText, AnEmptyRecipeIsTheDefaults) {
  const auto loaded = load("");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->recipe.decode_frequency.policy, "static");
  EXPECT_EQ(loaded->recipe.decode_frequency.mode, Mode::Enforce);
  EXPECT_EQ(loaded->recipe.route_prefill.policy, "round-robin");
  EXPECT_EQ(loaded->recipe.admission.policy, "always");
}

TEST(RecipeText, ModesAndEveryPolicyKindAreRead) {
  const auto loaded = load(R"(
[frequency.prefill]
mode = "shadow"
[routing]
policy = "power-of-two"
[routing.decode]
policy = "weighted-round-robin"
mode = "off"
[queueing]
mode = "shadow"
[admission]
policy = "bounded"
max_in_flight_per_instance = 7
max_held = 0
)");
  ASSERT_TRUE(loaded) << loaded.error().message();
  const Recipe& r = loaded->recipe;
  EXPECT_EQ(r.prefill_frequency.mode, Mode::Shadow);
  EXPECT_EQ(r.decode_frequency.mode, Mode::Enforce);
  EXPECT_EQ(r.route_prefill.policy, "power-of-two");
  EXPECT_EQ(r.route_decode.policy, "weighted-round-robin");
  EXPECT_EQ(r.route_decode.mode, Mode::Off);
  EXPECT_EQ(r.queueing.mode, Mode::Shadow);
  EXPECT_EQ(r.admission.policy, "bounded");
  EXPECT_EQ(r.admission.max_in_flight_per_instance, 7);
  EXPECT_EQ(r.admission.max_held, 0);
}

TEST(RecipeSet, TheLastWordWinsAndAShorthandCoversBothPhases) {
  const auto both = load(kRecipe, {"frequency.margin=0.2"});
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ(both->recipe.prefill_frequency.margin, 0.2);
  EXPECT_EQ(both->recipe.decode_frequency.margin, 0.2) << "a flag outranks the file's refinement";
  const auto refined = load(kRecipe, {"frequency.margin=0.2", "frequency.decode.margin=0.3"});
  ASSERT_TRUE(refined) << refined.error().message();
  EXPECT_EQ(refined->recipe.prefill_frequency.margin, 0.2);
  EXPECT_EQ(refined->recipe.decode_frequency.margin, 0.3);
}

TEST(RecipeSet, AListMayBeWrittenWithOrWithoutBrackets) {
  for (const char* list : {"1005,1200,1410", "[1005, 1200, 1410]", " 1005 , 1200,1410 "}) {
    const auto loaded = load(kRecipe, {std::string("frequency.clocks_mhz=") + list});
    ASSERT_TRUE(loaded) << loaded.error().message();
    EXPECT_EQ(loaded->recipe.prefill_frequency.clocks,
              (std::vector<MegaHertz>{MegaHertz{1005}, MegaHertz{1200}, MegaHertz{1410}}));
  }
}

struct Bad {
  const char* name;
  const char* from;
  const char* to;
  const char* where;
  const char* says;
};

class BadRecipe : public ::testing::TestWithParam<Bad> {};

TEST_P(BadRecipe, IsRefusedAtItsLineWithARemedy) {
  const Bad& bad = GetParam();
  const auto loaded = load(edited(kRecipe, bad.from, bad.to));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::BadInput);
  EXPECT_EQ(loaded.error().where, bad.where) << loaded.error().message();
  EXPECT_NE(loaded.error().what.find(bad.says), std::string::npos) << loaded.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRecipe,
    ::testing::Values(
        Bad{"UnknownPolicy", "eco-freq", "eco-frek", "r.toml:2", "did you mean \"eco-freq\"?"},
        Bad{"UnknownPolicyListsTheKnown", "eco-freq", "xyz", "r.toml:2", "\"static\", \"idle-parking\", \"eco-freq\""},
        Bad{"UnknownMode", "margin = 0.1", "mode = \"enforced\"", "r.toml:5", "did you mean \"enforce\"?"},
        Bad{"UnknownPhase", "[frequency.decode]", "[frequency.decoed]", "r.toml:4", "did you mean [frequency.decode]?"},
        Bad{"EcoFreqWithoutClocks", "clocks_mhz = [1005, 1410]\n", "", "r.toml:2", "clocks_mhz = [1005, 1410]"},
        Bad{"EmptyClocks", "[1005, 1410]", "[]", "r.toml:2", "needs clocks"},
        Bad{"DescendingClocks", "[1005, 1410]", "[1410, 1005]", "r.toml:3", "must ascend"},
        Bad{"RepeatedClock", "[1005, 1410]", "[1005, 1005]", "r.toml:3", "must ascend"},
        Bad{"NegativeClock", "[1005, 1410]", "[-1005, 1410]", "r.toml:3", ">= 1"},
        Bad{"TextAmongClocks", "[1005, 1410]", "[1005, \"max\"]", "r.toml:3", "list of integers"},
        Bad{"ClockNotAList", "[1005, 1410]", "1005", "r.toml:3", "list of integers"},
        Bad{"NegativeMargin", "margin = 0.1", "margin = -0.1", "r.toml:5", "margin is -0.1"},
        Bad{"MarginOfAll", "margin = 0.1", "margin = 1.0", "r.toml:5", "<= 0.95"},
        Bad{"NanMargin", "margin = 0.1", "margin = nan", "r.toml:5", "finite"},
        Bad{"NegativeDwell", "margin = 0.1", "dwell_ms = -1", "r.toml:5", ">= 0"},
        Bad{"ScenarioKey", "margin = 0.1", "ttft_ms = 600", "r.toml:5", "unknown key frequency.decode.ttft_ms"},
        Bad{"NothingMayBeInFlight", "margin = 0.1", "[admission]\nmax_in_flight_per_instance = 0", "r.toml:6", ">= 1"}),
    [](const auto& test) { return test.param.name; });

TEST(RecipeOnFleet, A100ClocksSuitTheA100) {
  const auto recipe = load(kRecipe);
  ASSERT_TRUE(recipe);
  const auto suits = check_recipe_on(*recipe, fleet("a100-80g"));
  EXPECT_TRUE(suits) << suits.error().message();
}

struct BadClock {
  const char* recipe;
  const char* where;
  const char* says;
};

TEST(RecipeOnFleet, AClockTheGpuDoesNotHaveIsRefusedAtItsLine) {
  const std::vector<BadClock> cases{
      {"[frequency]\nclock_mhz = 1980", "r.toml:2", "outside the 210 to 1410 MHz of a100-80g"},
      {"[frequency]\nclock_mhz = 1000", "r.toml:2", "nearest: 990 and 1005"},
      {"[frequency.decode]\nidle_clock_mhz = 100", "r.toml:2", "outside"},
      {"[frequency]\n\npolicy = \"eco-freq\"\nclocks_mhz = [1005, 1407]", "r.toml:4", "nearest: 1395 and 1410"},
  };
  for (const BadClock& bad : cases) {
    const auto recipe = load(bad.recipe);
    ASSERT_TRUE(recipe) << recipe.error().message();
    const auto suits = check_recipe_on(*recipe, fleet("a100-80g"));
    ASSERT_FALSE(suits) << bad.recipe;
    EXPECT_EQ(suits.error().where, bad.where);
    EXPECT_NE(suits.error().what.find(bad.says), std::string::npos) << suits.error().message();
  }
}

TEST(RecipeOnFleet, OnlyTheClocksOfThePhasesInTheFleetCount) {
  const auto recipe = load("[frequency.prefill]\nclock_mhz = 1000");
  ASSERT_TRUE(recipe);
  EXPECT_TRUE(check_recipe_on(*recipe, fleet("a100-80g"))) << "a colocated fleet has no prefill instance";
}

}  // namespace
}  // namespace wattle::config
