// Where folders and traces are found, and the stand-in for a missing trace.
#include "config/locate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/scratch_folder.h"
#include "config/load.h"
#include "config/test_texts.h"

namespace wattle::config {
namespace {

config::Scenario azure(const std::string& fallback) {
  config::Scenario scenario;
  scenario.file = "/nowhere/scenario.toml";
  scenario.workload.trace = "some/trace.csv";
  scenario.workload.rate_scale = 3.0;
  scenario.workload_fallback = fallback;
  return scenario;
}

TEST(LocateWorkload, APresentTraceIsUsedAsItIs) {
  const ScratchFolder data;
  data.write("some/trace.csv", "x");
  const auto options = locate_workload(azure("azure-conv"), data.path().string());
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->trace, "some/trace.csv");
  EXPECT_EQ(options->synthetic, "");
}

TEST(LocateWorkload, ATraceBesideTheScenarioIsFoundWithoutADataFolder) {
  const ScratchFolder folder;
  folder.write("some/trace.csv", "x");
  config::Scenario scenario = azure("");
  scenario.file = (folder.path() / "scenario.toml").string();
  const auto options = locate_workload(scenario, "");
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->trace, "some/trace.csv");
}

TEST(LocateWorkload, AnAbsentTraceGivesWayToTheFallbackAndKeepsTheShaping) {
  const auto options = locate_workload(azure("azure-conv"), "");
  ASSERT_TRUE(options) << options.error().message();
  EXPECT_EQ(options->trace, "");
  EXPECT_EQ(options->synthetic, "azure-conv");
  EXPECT_EQ(options->rate_scale, 3.0);
}

TEST(LocateWorkload, AStandInIsSaidOnceAProcess) {
  config::Scenario scenario = azure("azure-conv");
  scenario.workload.trace = "another/trace.csv";
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(locate_workload(scenario, ""));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "wattle: another/trace.csv is not here (WATTLE_DATA is not set); synthesising \"azure-conv\" instead "
            "(workload.fallback)\n");
}

TEST(LocateWorkload, WithoutAFallbackAnAbsentTraceIsAnError) {
  const auto options = locate_workload(azure(""), "");
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().kind, ErrorKind::BadInput);
  EXPECT_NE(options.error().what.find("WATTLE_DATA"), std::string::npos) << options.error().message();
}

TEST(LocateProject, WattleHomeAddsToTheShippedFoldersAndWinsOverThem) {
  const ScratchFolder home;
  home.write("recipes/mine.toml", "description = \"mine\"\n");
  home.write("recipes/static-max.toml", "description = \"my own\"\n");
  ASSERT_EQ(setenv("WATTLE_HOME", home.path().c_str(), 1), 0);
  const config::Project found = project();
  ASSERT_EQ(unsetenv("WATTLE_HOME"), 0);
  const auto names = found.names(config::Project::Kind::Recipe);
  EXPECT_TRUE(std::ranges::find(names, "mine") != names.end());
  EXPECT_TRUE(std::ranges::find(names, "eco-freq") != names.end());
  const auto own = found.find(config::Project::Kind::Recipe, "static-max", "test");
  ASSERT_TRUE(own) << own.error().message();
  EXPECT_TRUE(own->starts_with(home.path().string())) << *own;
  const auto shipped = project().find(config::Project::Kind::Recipe, "static-max", "test");
  ASSERT_TRUE(shipped) << shipped.error().message();
  EXPECT_NE(*shipped, *own);
}

TEST(BaseDir, OfABareFileNameIsTheWorkingFolder) {
  config::Scenario scenario;
  scenario.file = "s.toml";
  EXPECT_EQ(base_dir(scenario), ".");
  scenario.file = "/a/s.toml";
  EXPECT_EQ(base_dir(scenario), "/a");
}

TEST(OpenWorkload, WhatIsWrongWithAKeyIsSaidWhereItWasWritten) {
  auto loaded = scenario_from_text(testing::kScenario + "[report]\n", "s.toml", {}, testing::project());
  ASSERT_TRUE(loaded) << loaded.error().message();
  loaded->scenario.workload.requests = 0;
  const auto message = [&] {
    const auto source = open_workload(*loaded, loaded->scenario.workload, "");
    return source ? std::string() : source.error().message();
  };
  EXPECT_EQ(message(), "s.toml:2: workload.requests is 0; it must be at least 1");
  loaded->scenario.workload.requests = 10;
  loaded->origins.note("workload.start_s", "--set workload.start_s");
  loaded->scenario.workload.start = Span::s(1'000'000);
  EXPECT_TRUE(message().starts_with("--set workload.start_s: workload.start_s leaves no request")) << message();
}

}  // namespace
}  // namespace wattle::config
