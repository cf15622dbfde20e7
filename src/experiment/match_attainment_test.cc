#include "experiment/match_attainment.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/scratch_folder.h"
#include "config/locate.h"
#include "systems/reserve.h"

namespace wattle::experiment {
namespace {

config::LoadedScenario busy(std::vector<std::string> set = {}) {
  set.insert(set.begin(), {"workload.requests=2000", "workload.rate_per_s=9", "slo.itl_ms=20"});
  const auto loaded =
      config::load_scenario("synthetic-poisson", config::parse_overrides(set).value(), config::project());
  EXPECT_TRUE(loaded) << loaded.error().message();
  return *loaded;
}

systems::LoadedRecipe recipe(const std::string& name) {
  return systems::load_recipe(name, {}, config::project()).value();
}

TEST(MatchAttainment, HalvesPartTheWorkload) {
  const auto scenario = busy();
  const auto whole = run_simulation(scenario, recipe("static-max"), {});
  const auto first = run_half(scenario, recipe("static-max"), workload::Half::First, {});
  const auto second = run_half(scenario, recipe("static-max"), workload::Half::Second, {});
  ASSERT_TRUE(whole && first && second);
  EXPECT_EQ(first->requests.arrived + second->requests.arrived, whole->requests.arrived);
  EXPECT_EQ(first->tokens.output + second->tokens.output, whole->tokens.output);
  EXPECT_NEAR(static_cast<double>(first->requests.arrived), static_cast<double>(second->requests.arrived), 150.0);
  EXPECT_NEAR(second->sim.virtual_s, whole->sim.virtual_s / 2.0, 0.15 * whole->sim.virtual_s)
      << "the second half begins when it begins";
}

TEST(MatchAttainment, FaultsAndElectricityAreThoseOfTheHalfsTime) {
  const auto second_half = [](double at_s, double down_s) {
    auto scenario = busy();
    scenario.scenario.faults.push_back({Span::from_seconds(at_s), std::nullopt, 0, Span::from_seconds(down_s)});
    return run_half(scenario, recipe("static-max"), workload::Half::Second, {}).value();
  };
  const auto whole = run_simulation(busy(), recipe("static-max"), {}).value();
  const double middle = whole.sim.virtual_s / 2.0;  // about: requests leave after the last has arrived
  const auto spared = run_half(busy(), recipe("static-max"), workload::Half::Second, {}).value();
  EXPECT_EQ(second_half(middle / 4, middle / 2).energy.total, spared.energy.total) << "it was over before";
  EXPECT_LT(second_half(1.5 * middle, 10.0).slo.ttft, spared.slo.ttft - 0.01);
  EXPECT_LT(second_half(middle / 2, middle / 2 + 20.0).slo.ttft, spared.slo.ttft - 0.01) << "what is left of it";

  auto scenario = busy();
  const ScratchFolder folder;
  std::string steps = "time,grams\n";
  for (int part = 0; part < 16; ++part) {
    const int at = part * (static_cast<int>(middle) / 4);
    steps += fmt::format("1970-01-01 00:{:02}:{:02},{}\n", at / 60, at % 60, part < 3 ? 100 : 1000);
  }
  folder.write("steps.csv", steps);
  auto& site = scenario.scenario.sites.emplace_back();
  site.name = "here";
  site.start = "1970-01-01 00:00:00";
  site.books.file = folder.path() / "steps.csv";
  site.books.column = "grams";
  const auto grams = run_half(scenario, recipe("static-max"), workload::Half::Second, {});
  ASSERT_TRUE(grams) << grams.error().message();
  EXPECT_NEAR(grams->carbon.value() / (grams->energy.total.value() / 3.6e6), 1000.0, 1.0);
}

TEST(MatchAttainment, AHalfWithoutARequestIsRefused) {
  const auto scenario = busy({"workload.requests=1"});
  const auto first = run_half(scenario, recipe("static-max"), workload::Half::First, {});
  ASSERT_FALSE(first);
  EXPECT_NE(first.error().what.find("no request arrives in the first half"), std::string::npos);
  EXPECT_TRUE(run_half(scenario, recipe("static-max"), workload::Half::Second, {}));
}

TEST(Simulate, TimeSeriesHaveABound) {
  // A request in 2 days on average, a sample each millisecond.
  auto scenario = busy({"workload.requests=3", "workload.rate_per_s=5e-6", "report.sample_period_s=0.001"});
  SimulateOptions options;
  options.out_dir = ::testing::TempDir() + "/never_written";
  const auto refused = run_simulation(scenario, recipe("static-max"), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "--set report.sample_period_s");
}

TEST(Simulate, ABeliefFileThatIsNamedIsThere) {
  auto static_max = recipe("static-max");
  static_max.recipe.predictor.file = "nosuch.toml";
  EXPECT_FALSE(run_simulation(busy({"workload.requests=3"}), static_max, {}));
}

TEST(Simulate, TheFloorOfMiadIsAClockOfTheGpu) {
  auto set = config::parse_overrides({"frequency.policy=miad", "frequency.floor_mhz=9999"}).value();
  const auto miad = systems::load_recipe("static-max", set, config::project());
  ASSERT_TRUE(miad) << miad.error().message();
  const auto refused = run_simulation(busy({"workload.requests=3"}), *miad, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("floor_mhz"), std::string::npos);
}

TEST(MatchAttainment, TheReserveFoundKeepsTheBaselineWithLeastEnergy) {
  const auto scenario = busy();
  const auto baseline = run_half(scenario, recipe("static-max"), workload::Half::First, {});
  ASSERT_TRUE(baseline);
  for (const char* name : {"eco-freq", "static-sweet"}) {
    const auto as_it_is = run_half(scenario, recipe(name), workload::Half::First, {});
    ASSERT_TRUE(as_it_is);
    ASSERT_GT(short_of(as_it_is->slo, baseline->slo), kAttainmentSlack) << "or there is nothing to find";
    const auto matched = match_attainment(scenario, name, {}, baseline->slo, {});
    ASSERT_TRUE(matched) << matched.error().message();
    EXPECT_TRUE(matched->kept && matched->settable);
    EXPECT_LE(short_of(matched->first_half, baseline->slo), kAttainmentSlack);
    ASSERT_EQ(matched->reserve.size(), 1U);
    const auto energy_with = [&](const std::string& value) {
      const auto set = systems::load_recipe(name, {{matched->reserve.front().first, value}}, config::project());
      const auto run = run_half(scenario, set.value(), workload::Half::First, {});
      const bool kept = short_of(run->slo, baseline->slo) <= kAttainmentSlack;
      return kept ? run->energy.total.value() : std::numeric_limits<double>::infinity();
    };
    const double found = energy_with(matched->reserve.front().second);
    const bool clock = name == std::string("static-sweet");
    for (int i = 0; i < 18; ++i) {
      const auto other = clock ? std::to_string(1035 + 15 * i) : std::to_string(0.05 * i);
      EXPECT_GT(energy_with(other), 0.995 * found) << matched->reserve.front().first << "=" << other;
    }
  }
}

TEST(MatchAttainment, ARecipeThatKeepsTheBaselineNeedsNone) {
  const auto scenario = busy({"slo.itl_ms=1000", "slo.ttft_ms=60000"});
  const auto baseline = run_half(scenario, recipe("static-max"), workload::Half::First, {});
  const auto as_it_is = run_half(scenario, recipe("eco-freq"), workload::Half::First, {});
  ASSERT_TRUE(baseline && as_it_is);
  ASSERT_LE(short_of(as_it_is->slo, baseline->slo), kAttainmentSlack) << "or it needs one";
  const auto matched = match_attainment(scenario, "eco-freq", {}, baseline->slo, {});
  ASSERT_TRUE(matched);
  EXPECT_TRUE(matched->kept);
  const auto plain = run_half(scenario, recipe("eco-freq"), workload::Half::Second, {});
  EXPECT_EQ(matched->second_half.journal_digest, plain->journal_digest);
}

TEST(MatchAttainment, AFixedClockMayFallBelowItsSweetSpot) {
  const auto scenario = busy({"slo.itl_ms=1000", "slo.ttft_ms=60000", "fleet.0.gpu=h100"});
  const auto baseline = run_half(scenario, recipe("static-max"), workload::Half::First, {});
  ASSERT_TRUE(baseline);
  const auto matched = match_attainment(scenario, "static-sweet", {}, baseline->slo, {});
  ASSERT_TRUE(matched && matched->kept);
  ASSERT_EQ(matched->reserve.size(), 1U);
  EXPECT_LT(std::stoi(matched->reserve.front().second), 1080);
  const auto plain = run_half(scenario, recipe("static-sweet"), workload::Half::Second, {});
  EXPECT_LT(matched->second_half.energy.total, plain->energy.total);
}

TEST(MatchAttainment, WhatCannotKeepItSaysSo) {
  const auto scenario = busy();
  const auto matched = match_attainment(scenario, "eco-freq", {}, {1.1, 1.1, 1.1, 1.1, 1.1}, {});
  ASSERT_TRUE(matched);
  EXPECT_FALSE(matched->kept);
  const auto fixed = match_attainment(scenario, "static-max", {}, {1.1, 1.1, 1.1, 1.1, 1.1}, {});
  ASSERT_TRUE(fixed);
  EXPECT_FALSE(fixed->settable) << "there is nothing above the highest clock";
}

TEST(Reserves, AreTheAdmissionsOrEachPhasesClocks) {
  InstanceSpec prefill;
  prefill.role = Role::Prefill;
  prefill.gpu.clock_min = MegaHertz(210);
  prefill.gpu.clock_max = MegaHertz(1410);
  prefill.gpu.clock_step = MegaHertz(15);
  prefill.clocks = supported_clocks(prefill.gpu);
  prefill.sweet_clock = MegaHertz(1005);
  InstanceSpec decode = prefill;
  decode.role = Role::Decode;
  const std::vector<std::shared_ptr<const InstanceSpec>> fleet{std::make_shared<InstanceSpec>(prefill),
                                                               std::make_shared<InstanceSpec>(decode)};
  const auto eco = systems::reserves_of(recipe("eco-freq").recipe, fleet);
  ASSERT_EQ(eco.size(), 2U);
  EXPECT_EQ(eco[0].key, "frequency.prefill.margin");
  EXPECT_EQ(eco[1].key, "frequency.decode.margin");
  EXPECT_EQ(eco[1].values.front(), "0");
  EXPECT_EQ(eco[1].values.back(), "0.95");
  InstanceSpec both = prefill;
  both.role = Role::Colocated;
  const std::vector<std::shared_ptr<const InstanceSpec>> shared{std::make_shared<InstanceSpec>(both)};
  const auto priced = systems::reserves_of(recipe("wattle").recipe, shared);
  ASSERT_EQ(priced.size(), 1U);
  EXPECT_EQ(priced[0].key, "frequency.decode.late_tokens");
  EXPECT_EQ(priced[0].values.front(), "") << "0.005, as the recipe says";
  EXPECT_EQ(priced[0].values[1], "0.00475");
  EXPECT_EQ(priced[0].values.back(), "0.00025");
  EXPECT_EQ(systems::reserves_of(recipe("wattle").recipe, fleet).back().key, "frequency.decode.margin");
  EXPECT_EQ(systems::reserves_of(recipe("eco-freq").recipe, shared).back().key, "frequency.decode.margin");
  const auto fixed = systems::reserves_of(recipe("static-sweet").recipe, fleet);
  ASSERT_EQ(fixed.size(), 2U);
  EXPECT_EQ(fixed[0].values.front(), "210");
  EXPECT_EQ(fixed[0].values[53], "") << "1005 MHz, as the recipe says";
  EXPECT_EQ(fixed[0].values[54], "1020");
  EXPECT_EQ(fixed[0].values.back(), "1410");
  EXPECT_TRUE(systems::reserves_of(recipe("static-max").recipe, fleet).empty());
  const auto throttled = systems::reserves_of(recipe("throttllem-autoscale").recipe, shared);
  ASSERT_EQ(throttled.size(), 2U);
  EXPECT_EQ(throttled[0].key, "scaling.margin");
  EXPECT_EQ(throttled[1].key, "frequency.decode.margin") << "admission's would make requests wait";
}

}  // namespace
}  // namespace wattle::experiment
