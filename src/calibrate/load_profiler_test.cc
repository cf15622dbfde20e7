#include "calibrate/load_profiler.h"

#include <gtest/gtest.h>

#include "config/load.h"
#include "config/locate.h"

namespace wattle::calibrate {
namespace {

ProfiledEngine engine_of(const char* llm, const char* gpu = "h100") {
  const auto& project = config::project();
  ProfiledEngine engine;
  engine.gpu = config::load_gpu(*project.find(config::Project::Kind::Gpu, gpu, "gpu")).value();
  engine.llm = config::load_llm(*project.find(config::Project::Kind::Llm, llm, "llm")).value();
  return engine;
}

ClassRequests medium() { return {"MM", {Span::ms(400), Span::ms(100)}, {{400, 60}, {600, 100}, {500, 80}}}; }

LoadProfilerOptions quick() {
  LoadProfilerOptions options;
  options.tps = {1, 2};
  options.clocks = {MegaHertz(1200), MegaHertz(1980)};
  options.requests = 120;
  return options;
}

TEST(LoadProfiler, ProfilesClocksThatTheGpuHas) {
  const auto mhz = [](const char* gpu) {
    std::vector<int> all;
    for (const MegaHertz clock : clocks_to_profile(engine_of("llama-2-13b", gpu).gpu)) all.push_back(clock.value());
    return all;
  };
  EXPECT_EQ(mhz("h100"), (std::vector{810, 1005, 1200, 1395, 1605, 1800, 1980})) << "DynamoLLM's";
  EXPECT_EQ(mhz("a100-80g"), (std::vector{570, 720, 855, 990, 1140, 1275, 1410}));
  for (const char* gpu : {"a10g", "a40", "b200", "gh200-96g", "l40s", "mi300x"}) {
    const GpuSpec spec = engine_of("llama-2-13b", gpu).gpu;
    for (const MegaHertz clock : clocks_to_profile(spec)) EXPECT_TRUE(has_clock(spec, clock)) << gpu;
    EXPECT_EQ(clocks_to_profile(spec).back(), spec.clock_max);
  }
}

TEST(LoadProfiler, MeasuresUpToTheMostLoadWithinTheObjectives) {
  const auto table = profile_loads(engine_of("llama-2-13b"), {medium()}, quick());
  ASSERT_TRUE(table.has_value()) << table.error().message();
  ASSERT_TRUE(plan::check_load_table(*table, "here"));
  const auto& one = table->classes.at(0);
  EXPECT_NEAR(one.prompt_tokens, 500.0, 1e-9);
  ASSERT_EQ(one.profiles.size(), 4U);
  for (const auto& profile : one.profiles) {
    const auto& points = profile.points;
    EXPECT_GE(points.size(), 5U);
    for (std::size_t i = 1; i < points.size(); ++i) {
      EXPECT_GE(points[i].power, points[i - 1].power * 0.98) << profile.tp << " " << i;
      EXPECT_GE(points[i].ttft, points[i - 1].ttft);
    }
    const double most = plan::most_load(profile, one.limits).value();
    const double measured =
        std::ranges::find_if(points, [&](const auto& p) { return p.load_per_s > most / 1.03; })->load_per_s;
    EXPECT_LE(measured, most) << "what is between loads is at most the search's tolerance";
    if (profile.clock != MegaHertz(1980)) {
      EXPECT_EQ(points.back().load_per_s, most);
    }
  }
  // More clock carries more and draws more; so do more GPUs.
  EXPECT_LT(plan::most_load(one, 1, MegaHertz(1200)), plan::most_load(one, 1, MegaHertz(1980)));
  EXPECT_LT(one.profiles[0].points[0].power, one.profiles[1].points[0].power);
  EXPECT_LT(plan::most_load(one, 1, MegaHertz(1980)), plan::most_load(one, 2, MegaHertz(1980)));
}

TEST(LoadProfiler, GoesOnBeyondTheLimitsWhileMoreRequestsKeepThem) {
  auto options = quick();
  options.tps = {1};
  auto of = medium();
  of.limits.tbt = Span::ms(25);  // a p99 that is missed long before most requests miss it
  const auto table = profile_loads(engine_of("llama-2-13b"), {of}, options);
  ASSERT_TRUE(table.has_value()) << table.error().message();
  const auto& one = table->classes[0];
  const double within = plan::most_load(one, 1, MegaHertz(1980));
  ASSERT_GT(within, 0.0);
  EXPECT_GT(plan::most_useful_load(one, 1), 1.1 * within);
  EXPECT_EQ(one.profiles[0].points.back().load_per_s, plan::most_load(one, 1, MegaHertz(1200)))
      << "the highest clock's";
  EXPECT_EQ(plan::most_useful_load(one, 4), 0.0) << "not profiled";
}

TEST(LoadProfiler, MeasuresUntilBatchesHaveFilled) {
  auto options = quick();
  options.tps = {1};
  options.clocks = {MegaHertz(1980)};
  const ClassRequests slow{"slow", {Span::s(2), Span::ms(100)}, {{300, 800}}};
  const auto most = [&](std::int64_t requests) {
    options.requests = requests;
    return plan::most_load(profile_loads(engine_of("llama-2-13b"), {slow}, options)->classes.at(0), 1, MegaHertz(1980));
  };
  // By 120 requests alone the load would be 1.5 times what the engine sustains, by 60 eighty times.
  EXPECT_NEAR(most(120) / most(1600), 1.0, 0.15);
  EXPECT_NEAR(most(60) / most(1600), 1.0, 0.25);
}

TEST(LoadProfiler, WhatIsNotServedAsFastAsItComesIsNoLoadThatItCarries) {
  auto options = quick();
  options.tps = {1};
  options.clocks = {MegaHertz(1980)};
  options.requests = 600;
  const auto most = [&](Span ttft) {
    const ClassRequests of{"some", {ttft, Span::ms(100)}, {{300, 100}, {500, 150}}};
    return plan::most_load(profile_loads(engine_of("llama-2-13b"), {of}, options)->classes.at(0), 1, MegaHertz(1980));
  };
  // Without an objective of TTFT, or with one longer than any measurement, requests may wait, but not more and more.
  const double within = most(Span::s(2));
  EXPECT_GT(most(Span::max()), 0.98 * within);
  EXPECT_LT(most(Span::max()), 1.2 * within);
  EXPECT_NEAR(most(Span::s(100)) / most(Span::max()), 1.0, 0.05);
}

TEST(LoadProfiler, TheEndOfAnAnswerMayBeWhatIsHeldTo) {
  auto options = quick();
  options.tps = {1};
  options.clocks = {MegaHertz(1980)};
  options.requests = 600;
  const auto profile = [&](std::optional<Span> ttft, Span e2e) {
    ClassRequests of{"some", {ttft.value_or(e2e), Span::max()}, {{300, 100}, {500, 150}}};
    Slo held;
    held.ttft = ttft;
    held.e2e = e2e;
    of.held_to = Objectives(held);
    return profile_loads(engine_of("llama-2-13b"), {of}, options)->classes.at(0);
  };
  const auto most = [](const plan::ProfiledClass& one) { return plan::most_load(one, 1, MegaHertz(1980)); };
  const auto tight = profile(std::nullopt, Span::s(3));
  const double lone = tight.profiles[0].points[0].ttft.seconds();
  EXPECT_GT(lone, 1.0) << "a hundred tokens and more";
  EXPECT_LT(most(tight), 0.8 * most(profile(std::nullopt, Span::s(6))));
  EXPECT_NEAR(most(profile(Span::ms(500), Span::s(3))) / most(tight), 1.0, 0.1) << "it takes most of its objective";
  EXPECT_EQ(most(profile(std::nullopt, Span::ms(500))), 0.0) << "nobody alone ends so soon";
}

TEST(LoadProfiler, WhatNoConfigurationKeepsIsLeftOutOfTheQuantileAndNothingElse) {
  auto options = quick();
  options.tps = {1, 2};
  options.clocks = {MegaHertz(1980)};
  ClassRequests of{"all", {Span::ms(60), Span::ms(100)}, {}};
  for (int i = 0; i < 20; ++i) of.lengths.emplace_back(i == 7 ? 4000 : 300, 40);  // one in twenty takes longer alone
  const auto table = profile_loads(engine_of("llama-2-13b"), {of}, options);
  ASSERT_TRUE(table.has_value()) << table.error().message();
  EXPECT_GT(plan::most_load(table->classes[0], 2, MegaHertz(1980)), 0.1) << "planned for the nineteen";
  EXPECT_NE(std::ranges::find_if(table->provenance,
                                 [](const std::string& line) {
                                   return line.starts_with("class all: TTFT of 9") &&
                                          line.ends_with("no configuration keeps 99 %");
                                 }),
            table->provenance.end());
}

TEST(LoadProfiler, MeasuresInBetweenWherePowerBends) {
  auto options = quick();
  options.tps = {1};
  options.halvings = 0;
  const auto plain = profile_loads(engine_of("llama-2-13b"), {medium()}, options);
  options.halvings = 2;
  options.bend = 0.15;
  const auto finer = profile_loads(engine_of("llama-2-13b"), {medium()}, options);
  EXPECT_GT(finer->classes[0].profiles[0].points.size(), plain->classes[0].profiles[0].points.size());
  // Between two loads measured no rise is above the bend, unless it was halved as often as allowed.
  EXPECT_EQ(*profile_loads(engine_of("llama-2-13b"), {medium()}, options), *finer);
}

TEST(LoadProfiler, RequestsOfAMixedClassAreHeldToTheirOwnObjectives) {
  auto options = quick();
  options.tps = {2};
  options.clocks = {MegaHertz(1980)};
  ClassRequests mixed{"all", {Span::ms(60), Span::ms(100)}, {{100, 40}, {4000, 40}}};
  const auto strict = profile_loads(engine_of("llama-2-13b"), {mixed}, options);
  ASSERT_TRUE(strict.has_value());
  EXPECT_EQ(plan::most_load(strict->classes[0], 2, MegaHertz(1980)), 0.0) << "long prompts alone take longer";
  Slo small, large;
  small.ttft = Span::ms(60);
  large.ttft = Span::ms(2000);
  mixed.held_to = Objectives(Slo{}, Classifier({1000}, {}), {small, large}, {});
  const auto fair = profile_loads(engine_of("llama-2-13b"), {mixed}, options);
  ASSERT_TRUE(fair.has_value());
  EXPECT_GT(plan::most_load(fair->classes[0], 2, MegaHertz(1980)), 0.1);
  EXPECT_LE(plan::at_load(fair->classes[0].profiles[0], plan::most_load(fair->classes[0], 2, MegaHertz(1980)))->ttft,
            mixed.limits.ttft);
}

TEST(LoadProfiler, LoadsOfInstancesThatShareRequestsAreOfOne) {
  auto options = quick();
  options.tps = {2};
  options.clocks = {MegaHertz(1980)};
  const auto alone = profile_loads(engine_of("llama-2-13b"), {medium()}, options);
  options.instances = 4;
  const auto shared = profile_loads(engine_of("llama-2-13b"), {medium()}, options);
  const auto most = [](const plan::LoadTable& t) { return plan::most_load(t.classes[0], 2, MegaHertz(1980)); };
  EXPECT_NEAR(most(*shared) / most(*alone), 1.0, 0.15);
  const auto idle = [](const plan::LoadTable& t) { return t.classes[0].profiles[0].points[0].power; };
  EXPECT_EQ(idle(*shared), idle(*alone)) << "of one";
}

TEST(LoadProfiler, APairIsMeasuredAsOneWorker) {
  const ProfiledEngine engine = engine_of("llama-2-13b");
  ProfiledPair pair{{engine, 1, MegaHertz(1980)}, {engine_of("llama-2-13b", "a100-80g"), 1, MegaHertz(1410)}, {}};
  const auto together = profile_pair_loads(pair, {medium()}, quick());
  ASSERT_TRUE(together.has_value()) << together.error().message();
  ASSERT_TRUE(plan::check_load_table(*together, "here"));
  EXPECT_EQ(together->gpu, "h100+a100-80g");
  ASSERT_EQ(together->classes.at(0).profiles.size(), 1U);
  const auto& profile = together->classes[0].profiles[0];
  EXPECT_EQ(profile.tp, 1);
  EXPECT_EQ(profile.clock, MegaHertz(1980));
  const auto alone = [](const char* gpu, MegaHertz clock) {
    auto options = quick();
    options.tps = {1};
    options.clocks = {clock};
    return profile_loads(engine_of("llama-2-13b", gpu), {medium()}, options).value().classes.at(0);
  };
  const auto h100 = alone("h100", MegaHertz(1980)), a100 = alone("a100-80g", MegaHertz(1410));
  EXPECT_NEAR(profile.points[0].power.value(),
              (h100.profiles[0].points[0].power + a100.profiles[0].points[0].power).value(), 1e-9)
      << "both idle";
  const double most = plan::most_load(profile, medium().limits).value();
  EXPECT_GT(most, 0.0);
  EXPECT_GT(plan::at_load(profile, most)->power, h100.profiles[0].points[0].power + a100.profiles[0].points[0].power);
  // Prompts do not delay the pair's decodes: at the colocated A100's highest load its token gaps are shorter.
  const double a100_most = plan::most_load(a100.profiles[0], medium().limits).value();
  ASSERT_LT(a100_most, most);
  EXPECT_LT(plan::at_load(profile, a100_most)->tbt, plan::at_load(a100.profiles[0], a100_most)->tbt);
  pair.link.bandwidth_bytes_per_s = 1e9;
  const auto slow = profile_pair_loads(pair, {medium()}, quick());
  ASSERT_TRUE(slow.has_value());
  EXPECT_LT(plan::most_load(slow->classes[0].profiles[0], medium().limits).value_or(0.0), most) << "KV on its way";
}

TEST(LoadProfiler, AModelThatDoesNotFitAndObjectivesThatCannotBeMet) {
  auto options = quick();
  options.tps = {1, 8};
  options.clocks = {MegaHertz(1980)};
  auto impossible = medium();
  impossible.limits.ttft = Span::ms(1);
  const auto table = profile_loads(engine_of("llama-2-70b"), {impossible}, options);
  ASSERT_TRUE(table.has_value()) << table.error().message();
  ASSERT_EQ(table->classes[0].profiles.size(), 1U);
  EXPECT_EQ(table->classes[0].profiles[0].tp, 8);
  EXPECT_FALSE(plan::most_load(table->classes[0].profiles[0], impossible.limits).has_value());
  EXPECT_NE(table->provenance.back().find("left out: TP1"), std::string::npos);
  EXPECT_FALSE(profile_loads(engine_of("llama-2-70b"), {{"LL", {}, {}}}, options).has_value());
}

}  // namespace
}  // namespace wattle::calibrate
