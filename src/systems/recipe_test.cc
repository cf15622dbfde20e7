// Recipes: shorthands, modes, what is refused, and whether clocks suit a fleet.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "config/load.h"
#include "config/test_texts.h"
#include "policy/admission/bounded.h"
#include "policy/frequency/eco_freq.h"
#include "policy/routing/eco_route.h"
#include "systems/compose.h"
#include "systems/recipe.h"

namespace wattle::systems {
namespace {

using config::LoadedScenario;
using config::parse_overrides;
namespace testing = config::testing;
using policy::EcoFreqOptions;

using testing::edited;
using testing::kRecipe;

Result<LoadedRecipe> load(const std::string& text, const std::vector<std::string>& set = {}) {
  const auto overrides = parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return recipe_from_text(text, "r.toml", *overrides, testing::project());
}

LoadedScenario fleet(const std::string& gpu) {
  auto loaded =
      config::scenario_from_text(edited(testing::kScenario, "a100-80g", gpu), "s.toml", {}, testing::project());
  EXPECT_TRUE(loaded) << loaded.error().message();
  return std::move(*loaded);
}

EcoFreqOptions eco(const PolicyChoice& choice) { return options_of<EcoFreqOptions>(choice); }

TEST(RecipeText, AShorthandSetsBothPhasesAndAPhaseRefinesIt) {
  const auto loaded = load(kRecipe);
  ASSERT_TRUE(loaded) << loaded.error().message();
  const Recipe& r = loaded->recipe;
  EXPECT_EQ(r.name, "r");
  EXPECT_EQ(r.prefill_frequency.policy, "eco-freq");
  EXPECT_EQ(r.decode_frequency.policy, "eco-freq");
  EXPECT_EQ(eco(r.decode_frequency).clocks, eco(r.prefill_frequency).clocks);
  EXPECT_EQ(eco(r.prefill_frequency).margin, 0.0);
  EXPECT_EQ(eco(r.decode_frequency).margin, 0.1);
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
  const auto bounded = options_of<policy::BoundedAdmissionOptions>(r.admission);
  EXPECT_EQ(bounded.max_in_flight_per_instance, 7);
  EXPECT_EQ(bounded.max_held, 0);
}

TEST(RecipeSet, TheLastWordWinsAndAShorthandCoversBothPhases) {
  const auto both = load(kRecipe, {"frequency.margin=0.2"});
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ(eco(both->recipe.prefill_frequency).margin, 0.2);
  EXPECT_EQ(eco(both->recipe.decode_frequency).margin, 0.2) << "a flag outranks the file's refinement";
  const auto refined = load(kRecipe, {"frequency.margin=0.2", "frequency.decode.margin=0.3"});
  ASSERT_TRUE(refined) << refined.error().message();
  EXPECT_EQ(eco(refined->recipe.prefill_frequency).margin, 0.2);
  EXPECT_EQ(eco(refined->recipe.decode_frequency).margin, 0.3);
}

TEST(RecipeSet, AnotherSourcesOptionIsRefusedOrWhereRecipesAreComparedIgnored) {
  const auto set = parse_overrides({"length.source=learned", "length.accuracy=0.5"}).value();
  const auto refused = recipe_from_text(kRecipe, "r.toml", set);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "--set length.accuracy: length.accuracy does nothing without length.source = \"confusion\"; it is "
            "\"learned\"");
  const auto ignored = recipe_from_text(kRecipe, "r.toml", set, testing::project(), Unfit::Ignored);
  ASSERT_TRUE(ignored);
  EXPECT_TRUE(took(*ignored, set.front()));
  EXPECT_FALSE(took(*ignored, set.back()));
  for (const auto& [source, key] : {std::pair("confusion", "length.accuracy=0.5"),
                                    {"confusion", "length.errors=measured"},
                                    {"oracle", "length.error_p95=0.2"},
                                    {"trees", "length.trees=F"}}) {
    EXPECT_TRUE(load(kRecipe, {fmt::format("length.source={}", source), key})) << key;
    EXPECT_FALSE(load(kRecipe, {"length.source=classes", key})) << key;
  }
}

TEST(RecipeSet, AnOptionOfEmergenciesThatAreOffIsRefusedOrWhereRecipesAreComparedIgnored) {
  const auto set = parse_overrides({"emergency.squash_after_s=3"}).value();
  const auto refused = recipe_from_text(kRecipe, "r.toml", set);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "--set emergency.squash_after_s: emergency.squash_after_s does nothing without emergency.mode = "
            "\"enforce\" or \"shadow\"; it is \"off\"");
  const auto ignored = recipe_from_text(kRecipe, "r.toml", set, testing::project(), Unfit::Ignored);
  ASSERT_TRUE(ignored);
  EXPECT_FALSE(took(*ignored, set.front()));
  EXPECT_TRUE(load(kRecipe, {"emergency.mode=shadow", "emergency.squash_after_s=3"}));
  EXPECT_TRUE(load(kRecipe, {"emergency.overflow=true"})) << "in any mode";
}

TEST(RecipeSet, AnotherPolicysOptionIsRefusedOrWhereRecipesAreComparedIgnored) {
  const auto set = parse_overrides({"admission.max_held=3"}).value();
  const auto refused = recipe_from_text(kRecipe, "r.toml", set);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "--set admission.max_held: is an option of bounded; the policy here is always");
  const auto ignored = recipe_from_text(kRecipe, "r.toml", set, testing::project(), Unfit::Ignored);
  ASSERT_TRUE(ignored);
  EXPECT_FALSE(took(*ignored, set.front()));
}

TEST(RecipeSet, AListMayBeWrittenWithOrWithoutBrackets) {
  for (const char* list : {"1005,1200,1410", "[1005, 1200, 1410]", " 1005 , 1200,1410 "}) {
    const auto loaded = load(kRecipe, {std::string("frequency.clocks_mhz=") + list});
    ASSERT_TRUE(loaded) << loaded.error().message();
    EXPECT_EQ(eco(loaded->recipe.prefill_frequency).clocks,
              (std::vector<ClockSetting>{MegaHertz{1005}, MegaHertz{1200}, MegaHertz{1410}}));
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
        Bad{"EcoFreqWithoutClocks", "clocks_mhz = [1005, 1410]\n", "", "r.toml:1", "eco-freq needs clocks"},
        Bad{"EmptyClocks", "[1005, 1410]", "[]", "r.toml:3", "needs clocks"},
        Bad{"DescendingClocks", "[1005, 1410]", "[1410, 1005]", "r.toml:3", "must ascend"},
        Bad{"DescendingWords", "[1005, 1410]", "[\"max\", \"sweet\"]", "r.toml:3", "must ascend"},
        Bad{"NameIsAPath", "[frequency]", "name = \"../../escape\"\n[frequency]", "r.toml:1", "no '/'"},
        Bad{"NameIsTheFolderAbove", "[frequency]", "name = \"..\"\n[frequency]", "r.toml:1", "name is \"..\""},
        Bad{"NameIsEmpty", "[frequency]", "name = \"\"\n[frequency]", "r.toml:1", "or empty"},
        Bad{"RepeatedClock", "[1005, 1410]", "[1005, 1005]", "r.toml:3", "must ascend"},
        Bad{"NegativeClock", "[1005, 1410]", "[-1005, 1410]", "r.toml:3", "is -1005; it takes"},
        Bad{"UnknownClockWord", "[1005, 1410]", "[1005, \"most\"]", "r.toml:3", "is most; it takes"},
        Bad{"MoreThanTheHighest", "[1005, 1410]", "[1005, \"1.2x\"]", "r.toml:3", "is 1.2x; it takes"},
        Bad{"ClockNotAList", "[1005, 1410]", "1005", "r.toml:3", "list of clocks"},
        Bad{"AnotherPolicysOption", "margin = 0.1", "on_leave = true", "r.toml:5", "is an option of throttllem"},
        Bad{"NegativeMargin", "margin = 0.1", "margin = -0.1", "r.toml:5", "margin is -0.1"},
        Bad{"MarginOfAll", "margin = 0.1", "margin = 1.0", "r.toml:5", "<= 0.95"},
        Bad{"NanMargin", "margin = 0.1", "margin = nan", "r.toml:5", "finite"},
        Bad{"NegativeDwell", "margin = 0.1", "dwell_ms = -1", "r.toml:5", ">= 0"},
        Bad{"ScenarioKey", "margin = 0.1", "ttft_ms = 600", "r.toml:5", "unknown key frequency.decode.ttft_ms"},
        Bad{"NothingMayBeInFlight", "margin = 0.1", "[admission]\npolicy = \"bounded\"\nmax_in_flight_per_instance = 0",
            "r.toml:7", ">= 1"}),
    [](const auto& test) { return test.param.name; });

TEST(RecipeClocks, AreMegahertzOrWhatAnyGpuHas) {
  const auto loaded =
      load("[frequency]\npolicy = \"eco-freq\"\nclocks_mhz = [\"min\", \"0.5x\", \"sweet\", \"sweet+50%\", \"max\"]\n");
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto clocks = eco(loaded->recipe.decode_frequency).clocks;
  InstanceSpec spec;
  spec.sweet_clock = MegaHertz{1005};
  std::vector<std::int32_t> on;
  for (const ClockSetting& clock : clocks) on.push_back(clock.on(spec).value());
  EXPECT_EQ(on, (std::vector<std::int32_t>{210, 705, 1005, 1200, 1410}));
  spec.gpu.clock_max = MegaHertz{1980};
  EXPECT_EQ(clocks[1].on(spec), MegaHertz{990});
  EXPECT_EQ(clocks[3].on(spec), MegaHertz{1485}) << "half of the way from 1005";
  EXPECT_EQ(clocks[4].on(spec), MegaHertz{1980}) << "one recipe for every GPU";
}

TEST(RecipeClocks, ASweetSpotThatNobodyKnowsIsNoClock) {
  for (const std::string clock : {"sweet", "sweet+25%"}) {
    const auto loaded = load("[frequency]\nclock_mhz = \"" + clock + "\"\n");
    ASSERT_TRUE(loaded) << loaded.error().message();
    EXPECT_TRUE(needs_sweet_clock(loaded->recipe));
    const auto refused = check_instance(loaded->recipe, InstanceSpec{});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().where, "r.toml:2: frequency.decode.clock_mhz");
  }
  EXPECT_FALSE(load("[frequency]\nclock_mhz = \"sweet+100%\"\n")) << "that is max";
}

TEST(RecipeClocks, BelowTheSweetSpotAreSharesOfTheWayDown) {
  const auto list = [](const std::string& clocks) {
    return load("[frequency]\npolicy = \"eco-freq\"\nclocks_mhz = [" + clocks + "]\n");
  };
  const auto loaded = list(R"("sweet-50%", "sweet-25%", "sweet", "sweet+25%")");
  ASSERT_TRUE(loaded) << loaded.error().message();
  InstanceSpec spec;
  spec.gpu.clock_min = MegaHertz{600};
  spec.gpu.clock_max = MegaHertz{1800};
  spec.gpu.clock_step = MegaHertz{15};
  spec.sweet_clock = MegaHertz{1000};
  const auto& clocks = options_of<policy::EcoFreqOptions>(loaded->recipe.decode_frequency).clocks;
  EXPECT_EQ(clocks[0].on(spec), MegaHertz{795});
  EXPECT_EQ(clocks[1].on(spec), MegaHertz{900});
  spec.sweet_clock = MegaHertz{600};
  EXPECT_EQ(clocks[0].on(spec), MegaHertz{600}) << "nothing lower can be locked";
  for (const char* falls : {R"("sweet", "sweet-25%")", R"("sweet-25%", "sweet-50%")", R"("sweet-25%", "sweet-25%")"}) {
    EXPECT_FALSE(list(falls)) << falls;
  }
  EXPECT_FALSE(list(R"("sweet-100%", "max")"));
  EXPECT_FALSE(list(R"("sweet-25", "max")"));
}

/// Recipes in a folder of their own.
class Extending : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) { return folder_.write(name + ".toml", text); }
  Result<LoadedRecipe> read(const std::string& path, const std::vector<std::string>& set = {}) {
    return load_recipe(path, parse_overrides(set).value(), testing::project());
  }
  ScratchFolder folder_;
};

TEST_F(Extending, StartsFromTheOtherAndRefinesIt) {
  file("base", "name = \"theirs\"\ndescription = \"d\"\n" + kRecipe);
  const auto loaded = read(file("child", "extends = \"base\"\n[frequency]\nmargin = 0.3\n"));
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->recipe.name, "child");
  EXPECT_EQ(loaded->recipe.description, "d");
  EXPECT_EQ(eco(loaded->recipe.decode_frequency).margin, 0.3)
      << "a later file's shorthand outranks an earlier's section";
  EXPECT_EQ(eco(loaded->recipe.prefill_frequency).clocks.size(), 2U);
  const auto shipped = read(file("grandchild", "extends = \"voltanallm\"\n"));
  ASSERT_TRUE(shipped) << shipped.error().message();
  EXPECT_EQ(shipped->recipe.route_decode.policy, "eco-route") << "from the project, where no such file is beside it";
}

TEST_F(Extending, AnotherPolicyLeavesBehindWhatTheSlotHad) {
  file("base", kRecipe);
  const auto loaded = read(file("child", "extends = \"base\"\n[frequency]\npolicy = \"static\"\nclock_mhz = 900\n"));
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->recipe.decode_frequency.policy, "static");
  const auto flag = read(file("other", kRecipe), {"frequency.policy=static"});
  EXPECT_TRUE(flag) << flag.error().message();
  const auto wrong = read(file("wrong", "extends = \"base\"\n[frequency]\npolicy = \"static\"\nmargin = 0.1\n"));
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().where.ends_with("wrong.toml:4")) << wrong.error().where;
}

TEST_F(Extending, CirclesAndMissingFilesAreNamed) {
  file("a", "extends = \"b\"\n");
  const auto circle = read(file("b", "# b\nextends = \"a\"\n"));
  ASSERT_FALSE(circle);
  EXPECT_TRUE(circle.error().where.ends_with("a.toml:1")) << circle.error().message();
  EXPECT_NE(circle.error().what.find("is circular"), std::string::npos);
  const auto itself = read(file("c", "extends = \"c\"\n"));
  EXPECT_FALSE(itself);
  const auto missing = read(file("d", "\nextends = \"nowhere\"\n"));
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("d.toml:2: extends"), std::string::npos) << missing.error().message();
  const auto number = read(file("e", "extends = 3\n"));
  ASSERT_FALSE(number);
  EXPECT_TRUE(number.error().where.ends_with("e.toml:1"));
}

TEST(RecipeSet, ScenarioAndRecipeKeysArePartedAndUnknownOnesRefused) {
  const auto split = split_overrides(
      {{"slo.itl_ms", "60"}, {"frequency.decode.margin", "0.1"}, {"fleet.0.count", "2"}, {"name", "x"}});
  ASSERT_TRUE(split) << split.error().message();
  EXPECT_EQ(split->scenario.size(), 3U);
  ASSERT_EQ(split->recipe.size(), 1U);
  EXPECT_EQ(split->recipe[0].key, "frequency.decode.margin");
  const auto unknown = split_overrides({{"frequency.decode.magrin", "0.1"}});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().what.find("did you mean frequency.decode.margin?"), std::string::npos)
      << unknown.error().message();
}

TEST(RecipeSet, AKeyIsGivenOnce) {
  const auto problem = [](const std::vector<config::Override>& set) {
    const auto split = split_overrides(set);
    return split ? std::string("accepted") : split.error().message();
  };
  EXPECT_EQ(problem({{"seed", "9"}, {"slo.itl_ms", "60"}, {"seed", "4", "--seed"}}),
            "--seed: seed is given twice: 9 by --set seed and 4 here; keep one");
  EXPECT_EQ(
      problem({{"frequency.margin", "0.1"}, {"frequency.margin", "0.1"}}),
      "--set frequency.margin: frequency.margin is given twice: 0.1 by --set frequency.margin and 0.1 here; keep one");
  EXPECT_EQ(problem({{"fleet.count", "2"}, {"fleet.1.count", "3"}}), "accepted") << "the second refines the first";
}

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
}  // namespace wattle::systems
