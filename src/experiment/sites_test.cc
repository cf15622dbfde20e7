// Carbon and price series of real grids, through a scenario's [[site]], in a simulated run.
#include "config/sites.h"

#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/timestamp.h"
#include "config/locate.h"
#include "experiment/simulate.h"
#include "systems/recipe.h"

namespace wattle::experiment {
namespace {

/// Two pools of one scenario at two sites, over ten minutes from five to seven in California.
constexpr const char* kSites = R"(
[[site]]
name = "california"
start = "2024-05-10 18:55:00"
intensity_file = "carbon-electricitymaps-hourly/US-CAL-CISO_2024.csv"
electricity_file = "caiso-price-5min/CAISO_20240509_20240521.csv"
gpu_usd_per_h = 2.5
[[site]]
name = "ontario"
start = "2024-05-10 18:55:00"
intensity_file = "carbon-electricitymaps-hourly/CA-ON_2024.csv"
intensity_column = "ci_lifecycle_gco2_kwh"
electricity_usd_per_mwh = 60
gpu_usd_per_h = 1.5
)";

Result<config::LoadedScenario> scenario() {
  const auto text = read_file(WATTLE_SOURCE_DIR "/scenarios/synthetic-poisson.toml");
  if (!text) return std::unexpected(text.error());
  auto all = *text + kSites;
  const auto pool = all.find("[[fleet]]");
  const auto next = all.find("\n[", pool + 1);
  const std::string fleet = all.substr(pool, next - pool);
  all.insert(next, "\nsite = \"california\"\n" + fleet + "\nsite = \"ontario\"\n");
  return config::scenario_from_text(
      all, "sites.toml", {{"workload.rate_per_s", "0.2"}, {"workload.requests", "120"}, {"fleet.count", "1"}},
      config::project());
}

struct Samples final : journal::Sink {
  void sample(const journal::Sample& s) override { all.push_back(s); }
  std::vector<journal::Sample> all;
};

TEST(Sites, RealSeriesPriceARunAtEachSite) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto loaded = scenario();
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto recipe = systems::load_recipe("static-max", {}, config::project());
  ASSERT_TRUE(recipe);
  auto run = prepare_run(*loaded, *recipe, config::data_dir());
  ASSERT_TRUE(run) << run.error().message();
  ASSERT_EQ(run->setup.sites.size(), 2U);
  const auto sites = run->setup.sites;
  EXPECT_NE(sites[0].electricity.at(Instant()), sites[0].electricity.at(Instant() + Span::s(300)));
  EXPECT_NE(sites[0].intensity.at(Instant()), sites[0].intensity.at(Instant() + Span::s(300)));
  Samples samples;
  run->setup.sink = &samples;
  run->setup.sample_period = Span::s(1);
  run->setup.check_invariants = true;
  const auto facts = run->facts.instances;
  const auto summary = sim::simulate(std::move(run->setup)).summary;
  ASSERT_GT(summary.sim.virtual_s, 400.0);

  // A second opinion: the samples' energy, second by second, at the rates of that second.
  std::map<std::size_t, double> grams, usd;
  std::map<InstanceId, double> before_j;
  for (const auto& s : samples.all) {
    const auto site = static_cast<std::size_t>(facts[static_cast<std::size_t>(s.instance.value())].spec.site.value());
    const Instant begin = s.at - Span::s(1);
    const double drawn_kwh = (s.energy.joules().value() - before_j[s.instance]) / 3.6e6;
    before_j[s.instance] = s.energy.joules().value();
    grams[site] += drawn_kwh * sites[site].intensity.at(begin).value();
    usd[site] += drawn_kwh * sites[site].electricity.at(begin).value() / 1e3 + sites[site].gpu_price.value() / 3600.0;
  }
  ASSERT_EQ(summary.by_site.size(), 2U);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(summary.by_site[i].name, sites[i].name);
    EXPECT_NEAR(summary.by_site[i].carbon.value(), grams[i], 0.005 * grams[i]);
    EXPECT_NEAR(summary.by_site[i].cost.value(), usd[i], 0.005 * usd[i]);
  }
  EXPECT_NEAR(summary.cost.value(), (summary.cost_split.gpus + summary.cost_split.electricity).value(), 1e-9);
  EXPECT_NEAR(summary.carbon.value(), (summary.by_site[0].carbon + summary.by_site[1].carbon).value(), 1e-9);
}

TEST(Sites, AStartOutsideTheDataIsRefused) {
  if (config::data_dir().empty()) GTEST_SKIP() << "WATTLE_DATA is not set";
  auto loaded = scenario();
  ASSERT_TRUE(loaded) << loaded.error().message();
  loaded->scenario.sites[0].start = "2023-05-10 18:55:00";
  const auto early = config::make_sites(loaded->scenario, config::data_dir());
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().message().find("choose a start within"), std::string::npos) << early.error().message();
  loaded->scenario.sites[0].start = "tomorrow";
  EXPECT_NE(config::make_sites(loaded->scenario, config::data_dir()).error().message().find("[[site]] california"),
            std::string::npos);
  loaded->scenario.sites[0].start = "";
  const auto wall = parse_timestamp("2024-05-10 18:57:00");
  const auto live = config::make_sites(loaded->scenario, config::data_dir(), {Instant() + Span::s(1'000'000), wall});
  ASSERT_TRUE(live) << live.error().message();
  const auto at_start = config::make_sites(
      *[&] {
        loaded->scenario.sites[0].start = "2024-05-10 18:57:00";
        return &loaded->scenario;
      }(),
      config::data_dir());
  EXPECT_EQ((*live)[0].electricity.at(Instant() + Span::s(1'000'000)), (*at_start)[0].electricity.at(Instant()))
      << "the present, whatever the machine's own clock counts from";
}

}  // namespace
}  // namespace wattle::experiment
