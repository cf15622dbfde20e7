// P/D pairs in FREESH's rolling plan, over the shipped scenario of two kinds of GPU.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "config/locate.h"
#include "config/nodes.h"
#include "experiment/simulate.h"
#include "sim/simulation.h"
#include "systems/recipe.h"

namespace wattle::experiment {
namespace {

/// Shapes that plans name, and where requests went.
struct PairsSeen final : journal::Sink {
  void joined(const journal::Instance& instance) override { specs[instance.id] = instance.spec; }
  void plan(const journal::PlanRecord& record) override {
    for (const auto& target : record.plan.instances) shapes.insert(target.shape);
  }
  void outcome(const Outcome& o) override {
    const bool apart = o.fate == Fate::Finished && o.decode_instance != kNoInstance;
    if (!apart || o.prefill_instance == o.decode_instance) return;
    const auto& prefill = specs.at(o.prefill_instance);
    const auto& decode = specs.at(o.decode_instance);
    ++(prefill.decode == o.decode_instance ? in_pairs : elsewhere);
    EXPECT_EQ(prefill.site, decode.site) << "a KV cache does not cross sites";
  }
  std::map<InstanceId, InstanceSpec> specs;
  std::set<std::size_t> shapes;
  std::int64_t in_pairs = 0, elsewhere = 0;
};

struct Seen {
  journal::RunSummary summary;
  PairsSeen pairs;
};

Result<config::LoadedScenario> two_kinds(std::vector<config::Override> more = {}) {
  more.push_back({"workload.duration_s", "1200"});
  return config::load_scenario("two-kinds", more, config::project());
}

Result<Seen> run(const config::LoadedScenario& loaded, const char* recipe, std::vector<config::Override> more = {}) {
  const auto made = systems::load_recipe(recipe, more, config::project());
  if (!made) return std::unexpected(made.error());
  auto prepared = prepare_run(loaded, *made, config::data_dir());
  if (!prepared) return std::unexpected(prepared.error());
  Seen seen;
  for (const auto& instance : prepared->facts.instances) seen.pairs.joined(instance);
  prepared->setup.sink = &seen.pairs;
  prepared->setup.check_invariants = true;
  seen.summary = sim::simulate(std::move(prepared->setup)).summary;
  return seen;
}

TEST(SiteFleetPairs, AreChosenWhereTheyTakeLessAndKeepObjectives) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = two_kinds({{"workload.rate_per_s", "10"}});
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto without = run(*loaded, "freesh-ours");
  const auto with = run(*loaded, "freesh-pairs");
  ASSERT_TRUE(without) << without.error().message();
  ASSERT_TRUE(with) << with.error().message();
  EXPECT_EQ(without->pairs.in_pairs, 0);
  EXPECT_GT(with->pairs.in_pairs, with->summary.requests.finished / 2);
  EXPECT_EQ(with->pairs.elsewhere, 0);
  EXPECT_EQ(with->summary.requests.finished, with->summary.requests.arrived);
  EXPECT_LT(with->summary.energy.total.value(), without->summary.energy.total.value() * 0.9);
  EXPECT_GT(with->summary.slo.all, 0.98);
}

TEST(SiteFleetPairs, AtClocksOfLeastEnergyPromptsAreComputedOnAnH100AndAnswersOnAnA100) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = two_kinds({{"workload.rate_per_s", "10"}, {"slo.tbt_ms", "30"}, {"slo.ttft_ms", "1000"}});
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto with = run(*loaded, "freesh-pairs",
                        {{"scaling.sweet", "true"}, {"frequency.policy", "static"}, {"frequency.clock_mhz", "sweet"}});
  ASSERT_TRUE(with) << with.error().message();
  const auto pairs = config::pairs_of(loaded->scenario);
  const auto& pools = loaded->scenario.pools;
  const auto over_both = [&](std::size_t shape) {
    if (shape < pools.size()) return false;
    const auto& pair = pairs.at(shape - pools.size());
    return pools[pair.prefill].gpu == "h100" && pools[pair.decode].gpu == "a100-80g";
  };
  EXPECT_TRUE(std::ranges::any_of(with->pairs.shapes, over_both));
}

TEST(SiteFleetPairs, FewerInstancesAtClocksOfTheirOwnChoiceTakeLessThanMoreAtTheirBest) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = two_kinds({{"workload.rate_per_s", "24"}});
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto best_clocks = run(*loaded, "freesh-cleanest");
  const auto ours = run(*loaded, "freesh-ours");
  ASSERT_TRUE(best_clocks && ours);
  EXPECT_LT(ours->summary.energy.total.value(), best_clocks->summary.energy.total.value() * 0.8);
  EXPECT_LT(ours->summary.mean_gpus, best_clocks->summary.mean_gpus);
  EXPECT_GT(ours->summary.slo.all, 0.985);
  EXPECT_EQ(ours->summary.requests.finished, ours->summary.requests.arrived);
}

TEST(SiteFleetPairs, NoneIsStartedThatIsNotListed) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = two_kinds();
  ASSERT_TRUE(loaded);
  const auto some = run(*loaded, "freesh-pairs", {{"scaling.pairs", "h100+h100"}});
  ASSERT_TRUE(some) << some.error().message();
  const auto pairs = config::pairs_of(loaded->scenario);
  const auto& pools = loaded->scenario.pools;
  for (const std::size_t shape : some->pairs.shapes) {
    if (shape < pools.size()) continue;
    EXPECT_EQ(pools[pairs.at(shape - pools.size()).decode].gpu, "h100");
  }
  EXPECT_GT(some->pairs.in_pairs, 0);
}

TEST(SiteFleetPairs, MiadsClocksKeepTheObjectivesOfBothHalves) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = two_kinds();
  ASSERT_TRUE(loaded);
  const auto fastest = run(*loaded, "freesh-pairs", {{"frequency.policy", "static"}, {"frequency.clock_mhz", "max"}});
  const auto ours = run(*loaded, "freesh-pairs", {{"frequency.policy", "miad"}});
  ASSERT_TRUE(fastest && ours);
  EXPECT_GT(ours->pairs.in_pairs, ours->summary.requests.finished / 2);
  EXPECT_GT(ours->summary.slo.all, 0.97);
  EXPECT_LT(ours->summary.energy.total.value(), fastest->summary.energy.total.value() * 0.9);
}

TEST(SiteFleetPairs, ASiteThatIsCutOffTakesItsPairsWithItAndOthersStartAtTheNext) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  auto loaded = two_kinds();
  ASSERT_TRUE(loaded);
  for (std::int32_t node = 4; node < 8; ++node) loaded->scenario.faults.push_back({Span::s(400), node, {}, {}});
  const auto cut = run(*loaded, "freesh-pairs");
  ASSERT_TRUE(cut) << cut.error().message();
  const auto& all = cut->summary.requests;
  EXPECT_EQ(all.finished + all.rejected + all.failed, all.arrived);
  EXPECT_GT(cut->summary.emergency.shed, 0) << "until others have started";
  EXPECT_GT(all.finished, all.arrived * 9 / 10);
  std::set<SiteId> sites;
  for (const auto& [id, spec] : cut->pairs.specs) {
    if (spec.decode != kNoInstance) sites.insert(spec.site);
  }
  EXPECT_EQ(sites.size(), 2U);
}

TEST(SiteFleetPairs, AHalfThatDiesIsReplacedByAWholePair) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  for (const std::int32_t half : {0, 1}) {
    auto loaded = two_kinds();
    ASSERT_TRUE(loaded);
    loaded->scenario.faults.push_back({Span::s(400), {}, half, {}});
    const auto ran = run(*loaded, "freesh-pairs");
    ASSERT_TRUE(ran) << ran.error().message();
    const auto& all = ran->summary.requests;
    EXPECT_EQ(all.finished + all.rejected + all.failed, all.arrived);
    EXPECT_EQ(all.failed > 0, half == 0) << "those whose answers had begun; prompts are computed again";
    EXPECT_LT(all.failed, 200);
    std::int64_t pairs = 0;
    for (const auto& [id, spec] : ran->pairs.specs) pairs += spec.decode != kNoInstance ? 1 : 0;
    EXPECT_GE(pairs, 2);
  }
}

TEST(SiteFleetPairs, WhatCannotBeIsRefused) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = two_kinds();
  ASSERT_TRUE(loaded);
  const auto refused = [&](const char* recipe, std::vector<config::Override> more) {
    const auto made = run(*loaded, recipe, std::move(more));
    return made ? "" : made.error().message();
  };
  EXPECT_NE(refused("freesh-pairs", {{"scaling.pairs", "h100+l40s"}}).find("has h100+l40s"), std::string::npos);
  EXPECT_NE(refused("freesh-pairs", {{"scaling.ratings", "some.csv"}}).find("scaling.ratings has none"),
            std::string::npos);
  EXPECT_NE(refused("triton-autoscale", {}).find("only colocated"), std::string::npos);
  EXPECT_NE(two_kinds({{"fleet.2.count", "1"}}).error().message().find("count = 0"), std::string::npos);
}

}  // namespace
}  // namespace wattle::experiment
