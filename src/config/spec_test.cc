// GPU and LLM files: a new one is a file, a wrong one is refused at its line.
#include <gtest/gtest.h>

#include <string>

#include "config/load.h"
#include "config/test_texts.h"

namespace wattle::config::spec_test {
namespace {

using testing::edited;

const std::string kGpu = R"(clock_min_mhz = 300
clock_max_mhz = 900
clock_step_mhz = 100
tdp_w = 250.5
memory_gb = 32
memory_bandwidth_gb_per_s = 1100
bf16_tflops = 125
nvlink_gb_per_s = 150
sm_count = 80
)";

const std::string kLlm = R"(layers = 2
hidden = 8
heads = 4
kv_heads = 2
head_dim = 2
ffn = 16
vocab = 10
)";

TEST(GpuFile, AFurtherGpuIsAFileAndItsNameIsTheFiles) {
  const auto gpu = gpu_from_text(kGpu, "specs/gpus/my-gpu.toml");
  ASSERT_TRUE(gpu) << gpu.error().message();
  EXPECT_EQ(gpu->name, "my-gpu");
  EXPECT_EQ(gpu->clock_step, MegaHertz{100});
  EXPECT_EQ(gpu->tdp, Watts{250.5});
  EXPECT_DOUBLE_EQ(gpu->memory_bytes, 32e9);
  EXPECT_DOUBLE_EQ(gpu->memory_bandwidth_bytes_per_s, 1.1e12);
  EXPECT_DOUBLE_EQ(gpu->bf16_flops_per_s, 125e12);
  EXPECT_EQ(gpu->fp8_flops_per_s, 0.0);
  EXPECT_EQ(gpu->sm_count, 80);
}

TEST(LlmFile, ParametersAreCountedFromTheShape) {
  const auto llm = llm_from_text(kLlm, "tiny.toml");
  ASSERT_TRUE(llm) << llm.error().message();
  // Per layer: Q and O 8x8 each, K and V 8x4 each, three 8x16 matrices; two 10x8 embeddings.
  EXPECT_EQ(llm->parameters(), 2 * (64 + 64 + 32 + 32 + 3 * 128) + 2 * 80);
  const auto tied = llm_from_text(kLlm + "tied_embeddings = true\ngated_ffn = false\ndtype = \"fp8\"\n", "tiny.toml");
  ASSERT_TRUE(tied) << tied.error().message();
  EXPECT_EQ(tied->parameters(), 2 * (64 + 64 + 32 + 32 + 2 * 128) + 80);
  EXPECT_EQ(tied->weight_bytes(), tied->parameters() + 80) << "embeddings keep 16 bits";
}

struct Bad {
  const char* name;
  bool gpu;
  const char* from;
  const char* to;
  const char* where;
  const char* says;
};

class BadSpec : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSpec, IsRefusedAtItsLineWithARemedy) {
  const Bad& bad = GetParam();
  Error error;
  if (bad.gpu) {
    const auto gpu = gpu_from_text(edited(kGpu, bad.from, bad.to), "g.toml");
    ASSERT_FALSE(gpu);
    error = gpu.error();
  } else {
    const auto llm = llm_from_text(edited(kLlm, bad.from, bad.to), "m.toml");
    ASSERT_FALSE(llm);
    error = llm.error();
  }
  EXPECT_EQ(error.kind, ErrorKind::BadInput);
  EXPECT_EQ(error.where, bad.where) << error.message();
  EXPECT_NE(error.what.find(bad.says), std::string::npos) << error.message();
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSpec,
    ::testing::Values(
        Bad{"MissingTdp", true, "tdp_w = 250.5\n", "", "g.toml:1", "tdp_w is missing; it takes number (W)"},
        Bad{"UnknownUnit", true, "tdp_w", "tdp_kw", "g.toml:4", "did you mean tdp_w?"},
        Bad{"ClocksCrossed", true, "= 900", "= 200", "g.toml:1", "clock_min_mhz 300 is above clock_max_mhz 200"},
        Bad{"StepMissesTheTop", true, "= 100", "= 70", "g.toml:3", "does not lead"},
        Bad{"ZeroStep", true, "= 100", "= 0", "g.toml:3", ">= 1"},
        Bad{"NegativeMemory", true, "= 32", "= -32", "g.toml:5", ">= 1"},
        Bad{"InfiniteBandwidth", true, "= 1100", "= inf", "g.toml:6", "finite"},
        Bad{"Section", true, "tdp_w = 250.5", "tdp_w = 250.5\n[fit]", "g.toml:5", "unknown section [fit]"},
        Bad{"KvHeadsDoNotDivide", false, "kv_heads = 2", "kv_heads = 3", "m.toml:4",
            "kv_heads 3 does not divide heads 4"},
        Bad{"MoreExpertsPerTokenThanExperts", false, "vocab", "experts_per_token = 2\nvocab", "m.toml:7",
            "more than experts 1"},
        Bad{"ExpertWidthWithoutExperts", false, "vocab", "moe_ffn = 8\nvocab", "m.toml:7", "set experts"},
        Bad{"NoLayerWithExperts", false, "vocab", "experts = 4\ndense_layers = 2\nvocab", "m.toml:8",
            "none with experts"},
        Bad{"LatentPartsWithoutRank", false, "vocab", "v_head_dim = 2\nvocab", "m.toml:7", "set kv_lora_rank"},
        Bad{"LatentWithoutParts", false, "vocab", "kv_lora_rank = 4\nvocab", "m.toml:7", "needs qk_nope_head_dim"},
        Bad{"LatentWithSeveralKvHeads", false, "vocab",
            "kv_lora_rank = 4\nqk_nope_head_dim = 1\nqk_rope_head_dim = 1\nv_head_dim = 2\nvocab", "m.toml:4",
            "write 1"},
        Bad{"WindowWithoutLayers", false, "vocab", "sliding_window = 8\nvocab", "m.toml:7", "or neither"},
        Bad{"MoreWindowsThanLayers", false, "vocab", "sliding_window = 8\nwindowed_layers = 3\nvocab", "m.toml:8",
            "more than layers 2"},
        Bad{"FourBitKvCache", false, "vocab", "kv_dtype = \"nvfp4\"\nvocab", "m.toml:7", "bf16 or fp8"},
        Bad{"UnknownExpertDtype", false, "vocab", "expert_dtype = \"fp3\"\nvocab", "m.toml:7", "\"mxfp4\""},
        Bad{"ZeroLayers", false, "layers = 2", "layers = 0", "m.toml:1", ">= 1"},
        Bad{"UnknownDtype", false, "vocab", "dtype = \"fp16\"\nvocab", "m.toml:7", "\"bf16\", \"fp8\""},
        Bad{"MissingVocab", false, "vocab = 10\n", "", "m.toml:1", "vocab is missing"}),
    [](const auto& test) { return test.param.name; });

TEST(SpecFile, AFolderOrAHugeFileIsNoSpec) {
  const auto folder = load_gpu(WATTLE_SOURCE_DIR "/specs");
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().what.find("not a regular file"), std::string::npos) << folder.error().message();
  const auto missing = load_gpu("no-such.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where, "no-such.toml");
}

}  // namespace
}  // namespace wattle::config::spec_test
