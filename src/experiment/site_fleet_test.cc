// FREESH's recipes over the shipped scenario of three sites.
#include "experiment/site_fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "config/locate.h"
#include "experiment/simulate.h"
#include "sim/simulation.h"
#include "systems/recipe.h"

namespace wattle::experiment {
namespace {

SimulateOptions with_data() {
  SimulateOptions options;
  options.data_dir = config::data_dir();
  return options;
}

Result<journal::RunSummary> run(const char* recipe, std::vector<config::Override> overrides,
                                std::vector<config::Override> more = {}) {
  overrides.push_back({"workload.duration_s", "1200"});
  const auto loaded = config::load_scenario("freesh-3sites", overrides, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  const auto made = systems::load_recipe(recipe, more, config::project());
  if (!made) return std::unexpected(made.error());
  return run_simulation(*loaded, *made, with_data());
}

std::map<std::string, double> joules_by_site(const journal::RunSummary& run) {
  std::map<std::string, double> joules;
  for (const auto& row : run.by_site) joules[row.name] = row.energy.value();
  return joules;
}

TEST(SiteFleet, WorkIsWhereElectricityIsClean) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  for (const char* recipe : {"freesh", "freesh-cleanest", "freesh-ours"}) {
    const auto summary = run(recipe, {{"workload.rate_per_s", "4"}});
    ASSERT_TRUE(summary) << summary.error().message();
    auto joules = joules_by_site(*summary);
    EXPECT_GT(joules["Great Britain"], 0.0) << recipe << ": 64 g/kWh there at that hour, 198 and 324 at the others";
    EXPECT_EQ(joules["PJM"], 0.0) << recipe;
    EXPECT_EQ(joules["California"], 0.0) << recipe;
    EXPECT_EQ(summary->requests.finished, summary->requests.arrived);
  }
}

/// Pools that plans have instances in.
struct PoolsPlanned final : journal::Sink {
  void plan(const journal::PlanRecord& record) override {
    for (const auto& target : record.plan.instances) pools.insert(target.pool.value_or(PoolId(-1)));
  }
  std::set<PoolId> pools;
};

TEST(SiteFleet, TheBaselineHasOnePoolForAllClasses) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto pools_of = [](const char* recipe) {
    PoolsPlanned planned;
    const auto loaded = config::load_scenario(
        "freesh-3sites", {{"workload.duration_s", "300"}, {"workload.rate_per_s", "4"}}, config::project());
    const auto made = systems::load_recipe(recipe, {}, config::project());
    EXPECT_TRUE(loaded && made);
    auto prepared = prepare_run(*loaded, *made, config::data_dir());
    EXPECT_TRUE(prepared) << prepared.error().message();
    prepared->setup.sink = &planned;
    (void)sim::simulate(std::move(prepared->setup));
    return planned.pools;
  };
  EXPECT_EQ(pools_of("freesh-baseline"), std::set{PoolId(0)});
  EXPECT_GT(pools_of("freesh").size(), 1U);
}

TEST(SiteFleet, ASiteThatIsCutOffIsLeft) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = config::load_scenario("freesh-3sites", {{"workload.duration_s", "1200"}}, config::project());
  ASSERT_TRUE(loaded);
  auto broken = *loaded;
  broken.scenario.faults.push_back({Span::s(300), 4, {}, {}});
  const auto recipe = systems::load_recipe("freesh-ours", {}, config::project());
  ASSERT_TRUE(recipe);
  const auto summary = run_simulation(broken, *recipe, with_data());
  ASSERT_TRUE(summary) << summary.error().message();
  auto joules = joules_by_site(*summary);
  EXPECT_GT(joules["PJM"] + joules["California"], 0.0);
  EXPECT_GT(summary->requests.finished, summary->requests.arrived * 9 / 10);
  EXPECT_EQ(summary->requests.finished + summary->requests.failed + summary->requests.rejected,
            summary->requests.arrived);
}

/// Refused and shed requests of a run in which the only site that serves is cut off after five minutes.
journal::RunSummary cut_off(const char* recipe, const char* rate, std::int32_t node) {
  auto loaded = config::load_scenario("freesh-3sites", {{"workload.duration_s", "1200"}, {"workload.rate_per_s", rate}},
                                      config::project());
  const auto made = systems::load_recipe(recipe, {}, config::project());
  EXPECT_TRUE(loaded && made);
  loaded->scenario.faults.push_back({Span::s(300), node, {}, {}});
  const auto summary = run_simulation(*loaded, *made, with_data());
  EXPECT_TRUE(summary) << summary.error().message();
  return summary.value_or(journal::RunSummary{});
}

TEST(SiteFleet, WhatACutOffLeavesNoRoomForIsRefusedAndWhatIsServedIsInTime) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  constexpr std::int32_t kGreatBritain = 4, kUnused = 1;
  constexpr double kLoosest_ms = 600.0;  // of the classes' objectives
  for (const char* recipe : {"freesh", "freesh-ours"}) {
    for (const char* rate : {"2", "8"}) {
      const auto run = cut_off(recipe, rate, kGreatBritain);
      const auto& all = run.requests;
      EXPECT_EQ(all.finished + all.rejected + all.failed, all.arrived) << recipe;
      EXPECT_GT(run.emergency.shed, 0) << recipe << ": a new worker takes a minute to start";
      EXPECT_EQ(all.rejected, run.emergency.shed + run.emergency.squashed) << recipe;
      EXPECT_LT(run.ttft.p99_ms, kLoosest_ms) << recipe;
      // Nothing is refused for longer than that minute.
      EXPECT_NEAR(static_cast<double>(all.rejected) / static_cast<double>(all.arrived), 60.0 / 1200.0, 0.02) << recipe;
      std::int64_t by_class = 0;
      for (const auto& row : run.service_by_class) by_class += row.rejected;
      if (!run.service_by_class.empty()) {
        EXPECT_EQ(by_class, all.rejected) << recipe;
      }
      const auto other = cut_off(recipe, rate, kUnused);
      EXPECT_EQ(other.requests.rejected + other.requests.failed, 0) << recipe << ": nobody stood there";
    }
  }
}

/// Every planned worker can be started at its site, and with a full batch it carries the load that it is rated for.
TEST(SiteFleet, WhatIsPlannedForIsCarried) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  for (const char* recipe : {"freesh", "freesh-ours"}) {
    for (const char* rate : {"32", "64"}) {
      const auto summary = run(recipe, {{"workload.rate_per_s", rate}});
      ASSERT_TRUE(summary) << summary.error().message();
      // freesh-ours refuses the few that wait longer than their objectives allow.
      EXPECT_GE(summary->requests.finished, summary->requests.arrived * 998 / 1000) << recipe << " at " << rate << "/s";
      EXPECT_GT(summary->slo.all, 0.95) << recipe << " at " << rate << "/s";
    }
  }
}

/// By class, the pools that weights of a plan name.
struct PoolsOfClasses final : journal::Sink {
  void plan(const journal::PlanRecord& record) override {
    std::vector<std::int32_t> pools;
    for (const auto& weight : record.plan.weights) pools.push_back(weight.pool.value());
    said.insert(std::move(pools));
  }
  std::set<std::vector<std::int32_t>> said;
};

TEST(SiteFleet, PlansChooseAmongPartitions) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = config::load_scenario("freesh-3sites", {{"workload.duration_s", "3900"}}, config::project());
  const auto recipe = systems::load_recipe("freesh-partitions", {}, config::project());
  ASSERT_TRUE(loaded && recipe);
  auto prepared = prepare_run(*loaded, *recipe, config::data_dir());
  ASSERT_TRUE(prepared) << prepared.error().message();
  PoolsOfClasses pools;
  prepared->setup.sink = &pools;
  const auto ran = sim::simulate(std::move(prepared->setup));
  EXPECT_EQ(ran.summary.requests.finished, ran.summary.requests.arrived);
  EXPECT_EQ(ran.summary.service_by_class.size(), 9U) << "of the borders of both";
  // Prompts cut at 184 and answers at 444; at 25 and 232.
  const std::vector<std::int32_t> first{0, 0, 1, 0, 0, 1, 2, 2, 3}, second{0, 1, 1, 2, 3, 3, 2, 3, 3};
  EXPECT_EQ(pools.said, (std::set{first, second})) << "the second half hour's plan chooses the other one";
  const auto refused = [](std::vector<config::Override> more) {
    const auto made = run("freesh-partitions", {}, std::move(more));
    return made ? "" : made.error().message();
  };
  EXPECT_NE(refused({{"scaling.partition_prompt_below", "[185, 25]"}}).find("185 is none of classify.prompt_below"),
            std::string::npos);
  EXPECT_NE(refused({{"routing.ratings", "LLM_Serving_FREESH/pool_profile_llama3_70b.csv"}})
                .find("bounds workers as of one partition"),
            std::string::npos);
  EXPECT_NE(refused({{"scaling.partition_output_below", "[232]"}}).find("one border for each"), std::string::npos);
  EXPECT_NE(refused({{"scaling.pooled", "true"}}).find("pooled"), std::string::npos);
}

/// When plans were made.
struct PlansMade final : journal::Sink {
  void plan(const journal::PlanRecord& record) override { at.push_back(record.at); }
  std::vector<Instant> at;
};

TEST(SiteFleet, WhatIsCutOffIsPlannedForAtTheInstant) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = config::load_scenario("freesh-3sites", {{"workload.duration_s", "400"}}, config::project());
  ASSERT_TRUE(loaded);
  auto broken = *loaded;
  broken.scenario.faults.push_back({Span::s(310), 4, {}, {}});
  const auto recipe = systems::load_recipe("freesh-ours", {}, config::project());
  ASSERT_TRUE(recipe);
  auto prepared = prepare_run(broken, *recipe, config::data_dir());
  ASSERT_TRUE(prepared) << prepared.error().message();
  PlansMade made;
  prepared->setup.sink = &made;
  (void)sim::simulate(std::move(prepared->setup));
  EXPECT_NE(std::ranges::find(made.at, Instant() + Span::s(310)), made.at.end());
}

TEST(SiteFleet, AnEpochShorterThanASlotIsRefusedWithBoth) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto refused = run("freesh-ours", {}, {{"scaling.epoch_s", "1"}, {"scaling.slot_s", "300"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "--set scaling.epoch_s: is 1; it must be at least scaling.slot_s, 300 (recipe freesh-ours)");
}

TEST(SiteFleet, CostIsPlannedForWhereSitesHaveAPrice) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const std::vector<config::Override> cost{{"scaling.objective.cost", "1"}, {"scaling.objective.carbon", "0"}};
  const auto unpriced = run("freesh-ours", {}, cost);
  ASSERT_FALSE(unpriced);
  EXPECT_NE(unpriced.error().message().find("electricity_usd_per_mwh"), std::string::npos)
      << unpriced.error().message();
  auto loaded = config::load_scenario("freesh-3sites", {{"workload.duration_s", "600"}}, config::project());
  const auto recipe = systems::load_recipe("freesh-ours", cost, config::project());
  ASSERT_TRUE(loaded && recipe);
  for (const std::size_t cheap : {0U, 1U}) {
    for (std::size_t n = 0; n < 3; ++n) loaded->scenario.sites[n].electricity = UsdPerMwh(n == cheap ? 20.0 : 200.0);
    const auto summary = run_simulation(*loaded, *recipe, with_data());
    ASSERT_TRUE(summary) << summary.error().message();
    auto joules = joules_by_site(*summary);
    for (std::size_t n = 0; n < 3; ++n) EXPECT_EQ(joules[loaded->scenario.sites[n].name] > 0.0, n == cheap);
  }
}

TEST(SiteFleet, WorkersStandOnNodesAndAFirstPlanWithoutAnySaysWhy) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  auto loaded = config::load_scenario("freesh-3sites", {{"workload.duration_s", "300"}, {"workload.rate_per_s", "12"}},
                                      config::project());
  ASSERT_TRUE(loaded);
  for (auto& pool : loaded->scenario.pools) pool.count = 0;
  loaded->scenario.pools.front().count = 1;
  auto& great_britain = loaded->scenario.nodes.back();
  great_britain.gpus = 3;
  great_britain.count = 3;
  for (const char* name : {"freesh", "freesh-ours"}) {
    const auto recipe = systems::load_recipe(name, {}, config::project());
    ASSERT_TRUE(recipe);
    const auto summary = run_simulation(*loaded, *recipe, with_data());
    ASSERT_TRUE(summary) << summary.error().message();
    EXPECT_EQ(summary->requests.finished, summary->requests.arrived);
  }
  for (auto& node : loaded->scenario.nodes) node.gpus = 1;
  loaded->scenario.pools.front().count = 0;
  const auto recipe = systems::load_recipe("freesh", {}, config::project());
  const auto none = run_simulation(*loaded, *recipe, with_data());
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("GPUs ("), std::string::npos) << none.error().message();
}

TEST(SiteFleet, ATenantsWorkIsDoneAtItsSites) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  auto loaded = config::load_scenario("freesh-3sites", {{"workload.duration_s", "1200"}}, config::project());
  ASSERT_TRUE(loaded);
  loaded->scenario.tenants.push_back({"home", 0.2, "", "", 0, "PJM"});
  loaded->scenario.tenants.push_back({"others", 0.8, "", "", 0, ""});
  for (const char* name : {"freesh-cleanest", "freesh-ours"}) {
    const auto recipe = systems::load_recipe(name, {}, config::project());
    ASSERT_TRUE(recipe);
    const auto summary = run_simulation(*loaded, *recipe, with_data());
    ASSERT_TRUE(summary) << summary.error().message();
    auto joules = joules_by_site(*summary);
    EXPECT_GT(joules["PJM"], 0.0) << name << ": its electricity is not the cleanest";
    EXPECT_EQ(summary->requests.finished, summary->requests.arrived) << name;
  }
}

TEST(SiteFleet, PlansOverNodesOfKnownSiteAndGpuAlone) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  auto loaded = config::load_scenario("freesh-3sites", {}, config::project());
  ASSERT_TRUE(loaded);
  const auto recipe = systems::load_recipe("freesh", {}, config::project());
  ASSERT_TRUE(recipe);
  loaded->scenario.nodes[2].gpu.clear();
  const auto refused = prepare_run(*loaded, *recipe, config::data_dir());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("node 2 needs the gpu"), std::string::npos) << refused.error().message();
  loaded->scenario.nodes.clear();
  EXPECT_NE(prepare_run(*loaded, *recipe, config::data_dir()).error().message().find("[[node]]"), std::string::npos);
  EXPECT_FALSE(config::load_scenario("freesh-3sites", {{"node.site", "Nowhere"}}, config::project()));
}

}  // namespace
}  // namespace wattle::experiment
