#include "config/sites.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"

namespace wattle::config {
namespace {

Instant after_h(double h) { return Instant(Span::from_seconds(3600.0 * h).ns()); }

/// A scenario of one site, and files next to it.
class SiteFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("wattle_sites_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    scenario_.file = (folder_ / "scenario.toml").string();
    site_.name = "north";
    site_.start = "2024-01-01 00:00";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void file(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file((folder_ / name).string(), text));
  }
  Result<carbon::SiteRates> made(bool asks = false) {
    scenario_.sites = {site_};
    warnings_.clear();
    RunStart start;
    start.asks = asks;
    start.warn = [this](const std::string& line) { warnings_ += line + "\n"; };
    auto all = make_sites(scenario_, "", start);
    if (!all) return std::unexpected(all.error());
    return std::move(all->front());
  }
  std::string problem() {
    const auto none = made();
    return none ? "accepted" : none.error().message();
  }

  std::filesystem::path folder_;
  Scenario scenario_;
  SiteOptions site_;
  std::string warnings_;
};

TEST_F(SiteFiles, BooksAndDecisionsAreKeptApart) {
  file("books.csv", "datetime_utc,g\n2024-01-01 00:00,300\n2024-01-01 01:00,310\n");
  file("moer.csv", "timestamp,MOER\n2024-01-01 00:00,1000\n2024-01-01 00:05,-10\n");
  site_.books.file = "books.csv";
  site_.books.column = "g";
  auto alone = made();
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_FALSE(alone->decisions);
  EXPECT_EQ(alone->deciding().at(Instant()), GramsPerKwh(300.0));
  site_.decisions.file = "moer.csv";
  site_.decisions.column = "MOER";
  const auto both = made();
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_EQ(both->intensity.at(Instant()), GramsPerKwh(300.0));
  EXPECT_NEAR(both->deciding().at(Instant()).value(), 453.59237, 1e-9);
  EXPECT_LT(both->deciding().at(Instant() + Span::s(300)).value(), 0.0);
  EXPECT_EQ(both->books_by, "csv of books.csv");
  EXPECT_EQ(both->decisions_by, "marginal, csv of moer.csv");
  site_.decisions.kind = "average";
  EXPECT_NE(problem().find("[[site]] north: decision_kind: is average"), std::string::npos) << problem();
}

TEST_F(SiteFiles, WhatAFileDoesNotSayIsUnknown) {
  // unsorted, one row twice, one without a number, an hour missing, two values for one time
  file("g.csv",
       "datetime_utc,g\n2024-01-01 01:00,310\n2024-01-01 00:00,300\n2024-01-01 01:00,310\n2024-01-01 02:00,nan\n"
       "2024-01-01 03:00,330\n2024-01-01 05:00,350\n2024-01-01 06:00,1\n2024-01-01 06:00,2\n2024-01-01 07:00,370\n");
  site_.books.file = "g.csv";
  site_.books.column = "g";
  const auto site = made();
  ASSERT_TRUE(site) << site.error().message();
  const std::string known = "11010101";
  for (std::size_t h = 0; h < known.size(); ++h) {
    EXPECT_EQ(site->intensity.covers(after_h(static_cast<double>(h))), known[h] == '1') << h;
  }
  EXPECT_EQ(site->intensity.at(after_h(2)), GramsPerKwh(310.0)) << "never zero";
  for (const char* what :
       {"[[site]] north", "g.csv", "sorted", "left out", "contradict", "1 gaps", "without a value"}) {
    EXPECT_NE(warnings_.find(what), std::string::npos) << what << "\n" << warnings_;
  }
  file("g.csv", "datetime_utc,g\n2024-01-01 00:00,300\n2024-01-01 01:00,many\n");
  EXPECT_NE(problem().find("g.csv:3"), std::string::npos) << problem();
  file("g.csv", "datetime_utc,g\n2024-01-01 00:00,0.061\n2024-01-01 01:00,0.06\n");
  EXPECT_NE(problem().find("kg/kWh"), std::string::npos) << problem();
}

TEST_F(SiteFiles, ASourceIsAskedByLiveProcessesAlone) {
  site_.books.source = "electricity-maps";
  site_.books.zone = "DE";
  EXPECT_NE(problem().find("[[site]] north: intensity_source is electricity-maps, which only a live gateway or planner "
                           "asks; intensity_file must name"),
            std::string::npos)
      << problem();
  const auto live = made(true);
  ASSERT_TRUE(live) << live.error().message();
  EXPECT_FALSE(live->intensity.covers(Instant())) << "nothing is known before it is asked";
  const auto sources = site_sources(scenario_);
  ASSERT_EQ(sources.size(), 1U);
  EXPECT_FALSE(sources[0].decides);
  EXPECT_EQ(sources[0].query.kind, feeds::IntensityKind::Average);
  // An answer that was kept does for a simulation.
  file("de.json", R"({"zone":"DE","history":[{"carbonIntensity":302,"datetime":"2024-01-01T00:00:00Z"},
    {"carbonIntensity":null,"datetime":"2024-01-01T01:00:00Z"}],"temporalGranularity":"hourly"})");
  site_.books.file = "de.json";
  const auto stored = made();
  ASSERT_TRUE(stored) << stored.error().message();
  EXPECT_EQ(stored->intensity.at(Instant()), GramsPerKwh(302.0));
  EXPECT_FALSE(stored->intensity.covers(after_h(1)));
  EXPECT_EQ(stored->books_by, "average, electricity-maps DE of de.json");
  site_.books.zone = "FR";
  EXPECT_NE(problem().find("answers for zone 'DE'"), std::string::npos) << problem();
  site_.books.file = "";
  site_.books.source = "csv-eia";
  EXPECT_NE(problem().find("is a form of files; intensity_file must name one"), std::string::npos) << problem();
}

TEST_F(SiteFiles, WhichSignalIsMeant) {
  for (auto* o : {&site_.books, &site_.decisions}) {
    o->source = "watttime";
    o->zone = "CAISO_NORTH";
  }
  scenario_.sites = {site_};
  auto sources = site_sources(scenario_);
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].query.kind, feeds::IntensityKind::Average) << "books";
  EXPECT_EQ(sources[1].query.kind, feeds::IntensityKind::Marginal) << "decisions";
  EXPECT_TRUE(sources[1].decides);
}

}  // namespace
}  // namespace wattle::config
