// Recipes with engines that cache prefixes, draft tokens or hand requests over, which they know only by reports.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/locate.h"
#include "experiment/simulate.h"

namespace wattle::experiment {
namespace {

journal::RunSummary run(const std::string& recipe, const std::vector<std::string>& set, const std::string& scenario) {
  const auto both = systems::split_overrides(config::parse_overrides(set).value()).value();
  const auto loaded = config::load_scenario(scenario, both.scenario, config::project());
  EXPECT_TRUE(loaded) << loaded.error().message();
  const auto summary =
      run_simulation(*loaded, systems::load_recipe(recipe, both.recipe, config::project()).value(), {});
  EXPECT_TRUE(summary) << summary.error().message();
  return *summary;
}

journal::RunSummary run(const std::string& recipe, std::vector<std::string> set) {
  set.insert(set.begin(), "workload.requests=1200");
  return run(recipe, set, "synthetic-poisson");
}

TEST(ServingFeatures, RecipesKeepTheirObjectivesWithThem) {
  const std::vector<std::string> prefixes{"workload.session_share=0.7", "workload.prefix_share=0.5"};
  const std::vector<std::string> drafts{"engine.speculative_tokens=3", "engine.acceptance_rate=0.7",
                                        "engine.draft_share=0.05"};
  for (const auto& set : {prefixes, drafts}) {
    const auto fixed = run("static-max", set);
    for (const char* recipe : {"eco-freq", "wattle"}) {
      const auto ours = run(recipe, set);
      EXPECT_GE(ours.slo.all, fixed.slo.all - 0.01) << recipe << ", " << set.front();
      EXPECT_GE(ours.slo.ttft, fixed.slo.ttft - 0.01) << recipe << ", " << set.front();
      EXPECT_GE(ours.slo.itl, fixed.slo.itl - 0.01) << recipe << ", " << set.front();
      EXPECT_LT(ours.energy.total.value(), 0.95 * fixed.energy.total.value()) << recipe << ", " << set.front();
    }
  }
}

/// An objective between the mean gap and the step: without their yield no step is short enough.
TEST(ServingFeatures, StepsThatGiveSeveralTokensMayTakeTheirTime) {
  constexpr const char* kApart = "azure-conv-2p2d";
  std::vector<std::string> set{"workload.trace=", "workload.synthetic=azure-conv", "slo.itl_ms=8",
                               "engine.speculative_tokens=3", "engine.acceptance_rate=0.7"};
  const auto fixed = run("static-max", set, kApart);
  const auto ours = run("wattle", set, kApart);
  set.emplace_back("frequency.step_yield=0");
  const auto before = run("wattle", set, kApart);
  EXPECT_LT(ours.energy.total.value(), 0.9 * before.energy.total.value());
  EXPECT_GE(ours.slo.all, fixed.slo.all - 0.015);
}

/// Prefill and decode apart, where first tokens wait for the decode engine's loop.
TEST(ServingFeatures, OursKeepsFirstTokensAtEveryRateAndSavesWhereTheyAllow) {
  constexpr const char* kApart = "voltanallm-2p2d";
  for (int rate = 40; rate <= 85; rate += 15) {
    const std::vector<std::string> at{"workload.rate_per_s=" + std::to_string(rate), "workload.requests=6000"};
    const auto fastest = run("static-max", at, kApart);
    const auto ours = run("wattle", at, kApart);
    EXPECT_GE(ours.slo.ttft, fastest.slo.ttft - 0.01) << rate;
    EXPECT_GE(ours.slo.itl, fastest.slo.itl - 0.01) << rate;
    const auto share =
        static_cast<double>(ours.energy.total.value()) / static_cast<double>(fastest.energy.total.value());
    EXPECT_LT(share, rate == 40 ? 0.7 : 0.99) << rate;
  }
}

/// Neither half makes the latencies of the other, and first tokens wait for the decode engine's loop.
TEST(ServingFeatures, MiadKeepsTheObjectivesOfPrefillAndDecodeApart) {
  constexpr const char* kApart = "voltanallm-2p2d";
  for (const char* waits : {"link.handoff_steps=0", "link.handoff_steps=4"}) {
    const std::vector<std::string> set{"workload.rate_per_s=40", "workload.requests=6000", waits};
    const auto fastest = run("static-max", set, kApart);
    const auto ours = run("miad", set, kApart);
    EXPECT_GE(ours.slo.all, fastest.slo.all - 0.02) << waits;
    EXPECT_LT(ours.energy.total.value(), 0.85 * fastest.energy.total.value()) << waits;
  }
}

/// Instances that the load does not need become idle, here all decode instances but one.
TEST(ServingFeatures, FilledDecodeInstancesTakeLessEnergyThanSharedOnes) {
  constexpr const char* kApart = "voltanallm-2p2d";
  for (const char* at : {"workload.rate_per_s=8", "workload.rate_per_s=20"}) {
    const std::vector<std::string> shared{at, "workload.requests=2000", "routing.decode.policy=round-robin"};
    const std::vector<std::string> set{at, "workload.requests=2000"};
    const auto fastest = run("static-max", set, kApart);
    const auto ours = run("wattle", set, kApart);
    EXPECT_LT(ours.energy.total.value(), 0.85 * run("wattle", shared, kApart).energy.total.value()) << at;
    EXPECT_GE(ours.slo.ttft, fastest.slo.ttft - 0.003) << at;
    EXPECT_GE(ours.slo.itl, fastest.slo.itl - 0.003) << at;
  }
}

TEST(ServingFeatures, BothSaveEnergyAtTheSameClock) {
  const auto plain = run("static-max", {});
  const auto cached = run("static-max", {"workload.session_share=0.7"});
  const auto drafted = run("static-max", {"engine.speculative_tokens=3", "engine.acceptance_rate=0.7"});
  EXPECT_EQ(plain.tokens.cached_prompt, 0);
  EXPECT_GT(cached.tokens.cached_share(), 0.2);
  EXPECT_LT(cached.energy.prefill.value(), 0.9 * plain.energy.prefill.value());
  EXPECT_LT(cached.energy.busy.value(), plain.energy.busy.value());
  EXPECT_LT(drafted.tbt.mean_ms, 0.7 * plain.tbt.mean_ms);
  EXPECT_EQ(drafted.itl.count, plain.itl.count) << "as many tokens";
  EXPECT_EQ(drafted.itl.p50_ms, 0.0) << "most come with the one before";
}

TEST(DataParallel, EachGroupRunsAsManyRequestsAndTokensAsAnEngineMay) {
  const auto waited = [](const char* requests, const char* tokens) {
    const auto all =
        run("static-max",
            {"workload.requests=8", "workload.rate_per_s=1000", "llm=mixtral-8x7b", "fleet.count=1", "fleet.gpu=h100",
             "fleet.tensor_parallel=1", "fleet.data_parallel=4", "fleet.expert_parallel=4", requests, tokens},
            "synthetic-poisson");
    return all.queue.p99_ms / all.e2e.mean_ms;
  };
  EXPECT_LT(waited("engine.max_num_seqs=2", "engine.max_num_batched_tokens=8192"), 0.1) << "two on each of four";
  EXPECT_GT(waited("engine.max_num_seqs=1", "engine.max_num_batched_tokens=8192"), 0.4) << "four wait for the others";
  EXPECT_GT(waited("engine.max_num_seqs=2", "engine.max_num_batched_tokens=64"), 0.1) << "for the budget of 256";
}

// Recipe wattle gathers requests on the first of four instances, which then runs at 60 % of its highest clock.
TEST(Faults, AHotInstanceGetsWhatItCanStepInTime) {
  const auto split = systems::split_overrides(
      config::parse_overrides({"fleet.0.count=4", "llm=mistral-7b", "engine.max_num_batched_tokens=512",
                               "workload.rate_per_s=20", "workload.requests=2000", "workload.arrival_cv=2",
                               "workload.prompt_mean=500", "workload.output_mean=100", "slo.ttft_ms=5000"})
          .value());
  auto loaded = config::load_scenario("synthetic-poisson", split->scenario, config::project());
  ASSERT_TRUE(loaded) << loaded.error().message();
  loaded->scenario.faults.push_back({Span::s(30), {}, 0, Span::s(60), 0.6});
  const auto recipe = systems::load_recipe("wattle", {}, config::project()).value();
  const auto summary = run_simulation(*loaded, recipe, {});
  ASSERT_TRUE(summary) << summary.error().message();
  EXPECT_GT(summary->slo.itl, 0.97);
  EXPECT_GT(summary->slo.all, 0.99);
}

TEST(Workload, WhatWasClampedIsCounted) {
  const auto whole = run("static-max", {"workload.max_prompt_tokens=100000", "workload.max_output_tokens=100000"});
  EXPECT_EQ(whole.requests.clamped_prompts + whole.requests.clamped_outputs, 0);
  const auto clamped = run("static-max", {"workload.max_prompt_tokens=1000"});
  EXPECT_GT(clamped.requests.clamped_prompts, 200) << "the mean is 1,000";
  EXPECT_LT(clamped.tokens.prompt, whole.tokens.prompt);
}

}  // namespace
}  // namespace wattle::experiment
