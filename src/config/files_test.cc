// Every file the project ships loads, and says what its source says.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "config/load.h"

namespace wattle::config {
namespace {

const Project kProject({WATTLE_SOURCE_DIR});

TEST(Project, WithoutRecipesIsAnErrorThatSaysWhereTheyShouldBe) {
  EXPECT_TRUE(kProject.some_names(Project::Kind::Recipe).has_value());
  const auto none = Project({"/nowhere/at/all"}).some_names(Project::Kind::Recipe);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().where, "/nowhere/at/all/recipes");
  EXPECT_NE(none.error().what.find("WATTLE_HOME"), std::string::npos) << none.error().message();
}

TEST(ShippedSpecs, EveryGpuLoads) {
  const auto names = kProject.names(Project::Kind::Gpu);
  EXPECT_GE(names.size(), 11U);
  for (const std::string& name : names) {
    const auto gpu = load_gpu(kProject.find(Project::Kind::Gpu, name, "test").value());
    ASSERT_TRUE(gpu) << gpu.error().message();
    EXPECT_EQ(gpu->name, name);
  }
}

TEST(ShippedSpecs, A100IsTheDataSheetsA100) {
  const auto gpu = load_gpu(kProject.find(Project::Kind::Gpu, "a100-80g", "test").value());
  ASSERT_TRUE(gpu) << gpu.error().message();
  EXPECT_EQ(gpu->clock_min, MegaHertz{210});
  EXPECT_EQ(gpu->clock_max, MegaHertz{1410});
  EXPECT_EQ(gpu->clock_step, MegaHertz{15});
  EXPECT_EQ(gpu->tdp, Watts{400.0});
  EXPECT_DOUBLE_EQ(gpu->memory_bytes, 85.9e9);
  EXPECT_DOUBLE_EQ(gpu->memory_bandwidth_bytes_per_s, 2.039e12);
  EXPECT_DOUBLE_EQ(gpu->bf16_flops_per_s, 312e12);
  EXPECT_DOUBLE_EQ(gpu->nvlink_bytes_per_s, 300e9);
  EXPECT_EQ(gpu->sm_count, 108);
}

// Published parameter counts, in billions (model cards). Biases, norms and position embeddings are not modelled.
const std::map<std::string, double> kPublishedBillions{
    {"llama-2-7b", 6.74},         {"llama-2-13b", 13.02},   {"llama-2-70b", 68.98},   {"llama-3-8b", 8.03},
    {"llama-3-70b", 70.55},       {"llama-3.1-8b", 8.03},   {"llama-3.1-70b", 70.55}, {"llama-3.1-405b", 405.9},
    {"ministral-3b", 3.32},       {"qwen3-8b", 8.19},       {"qwen3-14b", 14.77},     {"qwen3-32b", 32.76},
    {"gemma-3-27b", 27.01},       {"mixtral-8x7b", 46.70},  {"mixtral-8x22b", 140.6}, {"falcon-180b", 179.5},
    {"opt-13b", 12.85},           {"opt-66b", 65.72},       {"bloom-176b", 176.25},   {"gemma-2-2b", 2.61},
    {"gemma-2-9b", 9.24},         {"gemma-2-27b", 27.23},   {"gemma-3-12b", 11.77},   {"codegemma-1.1-2b", 2.51},
    {"codegemma-7b", 8.54},       {"codellama-34b", 33.74}, {"mistral-7b", 7.25},     {"mistral-nemo", 12.25},
    {"mistral-small-24b", 23.57}, {"mistral-large", 122.6}, {"phi-3-mini", 3.82},     {"phi-3-small", 7.39},
    {"phi-3-medium", 13.96},      {"phi-4", 14.66},         {"starcoder2-3b", 3.03},  {"starcoder2-7b", 7.17},
    {"starcoder2-15b", 15.96},    {"qwen2.5-7b", 7.62},     {"qwen2.5-14b", 14.77},   {"qwen2.5-32b", 32.76},
    {"qwen2.5-72b", 72.71},       {"qwen3-1.7b", 1.72},     {"qwen3-4b", 4.02},       {"llama-3.2-1b", 1.24},
    {"llama-3.2-3b", 3.21},
};

struct Mixture {
  double billions;
  double active_billions;
};
// Likewise of mixtures of experts; active ones as published count the LM head and not the input embedding, or nearly.
const std::map<std::string, Mixture> kPublishedMixtures{
    {"deepseek-v3", {671.0, 37.0}},
    {"deepseek-v3-nvfp4", {671.0, 37.0}},
    {"kimi-k2", {1040.0, 32.0}},
    {"kimi-k2-nvfp4", {1040.0, 32.0}},
    {"glm-5", {744.0, 40.0}},
    {"gpt-oss-120b", {116.8, 5.1}},
    {"gpt-oss-20b", {20.9, 3.6}},
    {"qwen3-235b-a22b", {235.0, 22.0}},
    {"qwen3-30b-a3b", {30.5, 3.3}},
    {"qwen3-coder-480b-a35b", {480.0, 35.0}},
    {"minimax-m2", {230.0, 10.0}},
    {"llama-4-scout", {109.0, 17.0}},
    {"llama-4-maverick", {400.0, 17.0}},
};

TEST(ShippedSpecs, MixturesMatchThePublishedTotalAndActiveCounts) {
  for (const auto& [name, published] : kPublishedMixtures) {
    const auto file = kProject.find(Project::Kind::Llm, name, "test");
    ASSERT_TRUE(file) << file.error().message();
    const auto llm = load_llm(*file);
    ASSERT_TRUE(llm) << llm.error().message();
    EXPECT_NEAR(llm->parameters() / 1e9, published.billions, 0.03 * published.billions) << name;
    EXPECT_NEAR(llm->active_parameters() / 1e9, published.active_billions, 0.1 * published.active_billions) << name;
  }
}

TEST(ShippedSpecs, GptOssWeighsWhatItsCheckpointDoes) {
  const auto llm = load_llm(kProject.find(Project::Kind::Llm, "gpt-oss-120b", "test").value());
  ASSERT_TRUE(llm) << llm.error().message();
  EXPECT_NEAR(llm->weight_bytes(), 65.3e9, 0.02 * 65.3e9) << "model card: 60.8 GiB";
}

TEST(ShippedSpecs, AnEightBitCheckpointsEmbeddingsKeepSixteenBits) {
  auto llm = load_llm(kProject.find(Project::Kind::Llm, "llama-3.1-8b", "test").value());
  ASSERT_TRUE(llm) << llm.error().message();
  llm->dtype = Dtype::Fp8;
  EXPECT_NEAR(llm->weight_bytes(), 9.08e9, 0.01 * 9.08e9) << "files of Llama-3.1-8B-Instruct-FP8";
}

TEST(ShippedSpecs, LlmParametersMatchThePublishedCounts) {
  for (const auto& [name, billions] : kPublishedBillions) {
    const auto file = kProject.find(Project::Kind::Llm, name, "test");
    ASSERT_TRUE(file) << file.error().message();
    const auto llm = load_llm(*file);
    ASSERT_TRUE(llm) << llm.error().message();
    EXPECT_NEAR(llm->parameters() / 1e9, billions, 0.03 * billions) << name;
  }
}

TEST(ShippedSpecs, EveryLlmHasAPublishedCountInThisTest) {
  for (const std::string& name : kProject.names(Project::Kind::Llm)) {
    EXPECT_TRUE(kPublishedBillions.contains(name) || kPublishedMixtures.contains(name)) << name;
  }
}

TEST(ShippedScenarios, EachLoads) {
  const auto scenarios = kProject.names(Project::Kind::Scenario);
  EXPECT_GE(scenarios.size(), 5U);
  for (const std::string& name : scenarios) {
    const auto scenario = load_scenario(name, {}, kProject);
    ASSERT_TRUE(scenario) << scenario.error().message();
    EXPECT_EQ(scenario->scenario.name, name);
    EXPECT_FALSE(scenario->scenario.description.empty()) << name;
  }
}

TEST(ShippedScenarios, TwoPrefillTwoDecodeSaysWhatItsNameSays) {
  const auto loaded = load_scenario("azure-conv-2p2d", {}, kProject);
  ASSERT_TRUE(loaded) << loaded.error().message();
  const Scenario& s = loaded->scenario;
  ASSERT_EQ(s.pools.size(), 2U);
  EXPECT_EQ(s.pools[0].role, Role::Prefill);
  EXPECT_EQ(s.pools[0].count, 2);
  EXPECT_EQ(s.pools[1].role, Role::Decode);
  EXPECT_EQ(s.pools[1].count, 2);
  EXPECT_EQ(s.slo.ttft, Span::ms(1500));
  EXPECT_EQ(s.slo.itl, Span::ms(17));
  EXPECT_FALSE(s.slo.tbt.has_value());
  EXPECT_EQ(s.workload_fallback, "azure-conv");
  EXPECT_EQ(s.link.bandwidth_bytes_per_s, 25e9);
  EXPECT_EQ(s.link.latency, Span::us(500));
}

}  // namespace
}  // namespace wattle::config
