// Which load profile a scenario uses: one for all that would be measured in the same way.
#include "experiment/load_profile.h"

#include <gtest/gtest.h>

#include "config/locate.h"

namespace wattle::experiment {
namespace {

/// Of one class at one clock, in a second or two.
std::shared_ptr<const plan::LoadTable> profile_of(const config::LoadedScenario& loaded) {
  LoadProfileRequest request;
  request.options.clocks = {loaded.gpus.front().clock_max};
  request.options.requests = 50;
  const auto table = scenario_profile(loaded, {}, "", request);
  EXPECT_TRUE(table) << table.error().message();
  return table ? *table : nullptr;
}

TEST(LoadProfile, IsAnotherForAnotherModelOfTheSameNameAndForOtherCpuTimes) {
  const auto load = [](const std::vector<config::Override>& set) {
    auto loaded = config::load_scenario("synthetic-poisson", set, config::project());
    EXPECT_TRUE(loaded) << loaded.error().message();
    return *loaded;
  };
  const auto profile = [](const config::LoadedScenario& loaded) {
    return profile_of(loaded)->classes.front().profiles.front();
  };
  const plan::ShardProfile own = profile(load({}));
  EXPECT_EQ(profile(load({{"workload.rate_per_s", "3"}})), own) << "found again: a service's load is not the model's";
  for (const char* cpu : {"engine.prompt_gap_ms", "engine.prompt_step_gap_ms", "engine.decode_gap_ms"}) {
    EXPECT_NE(profile(load({{cpu, "9"}})), own) << cpu;
  }
  EXPECT_NE(profile(load({{"engine.framework", "sglang-pd"}})), own);
  auto deeper = load({});
  deeper.llm.layers *= 2;
  EXPECT_NE(profile(deeper), own);
  auto slower = load({});
  slower.gpus.front().memory_bandwidth_bytes_per_s /= 2;
  EXPECT_NE(profile(slower), own);
}

TEST(LoadProfile, ATraceThatEndsWithinAMinuteSaysNothingOfTheRestOfIt) {
  const auto rate_of = [](const char* seconds) {
    const auto loaded = config::load_scenario(
        "synthetic-poisson",
        {{"workload.rate_per_s", "30"}, {"workload.requests", "100000"}, {"workload.duration_s", seconds}},
        config::project());
    EXPECT_TRUE(loaded) << loaded.error().message();
    const auto busiest = busiest_rates(*loaded, {}, "");
    EXPECT_TRUE(busiest) << busiest.error().message();
    return busiest->at(0);
  };
  for (const char* seconds : {"20", "59", "75", "610"}) EXPECT_NEAR(rate_of(seconds), 30.0, 3.0) << seconds;
}

}  // namespace
}  // namespace wattle::experiment
