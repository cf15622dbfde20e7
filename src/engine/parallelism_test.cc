// What newer models and the ways to share them among GPUs change in time, power and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "engine/hardware_profile.h"
#include "engine/operations.h"
#include "engine/step_model.h"

namespace wattle::engine {
namespace {

GpuSpec h200() {
  GpuSpec gpu;
  gpu.name = "h200";
  gpu.clock_min = MegaHertz(345);
  gpu.clock_max = MegaHertz(1980);
  gpu.tdp = Watts(700.0);
  gpu.memory_bytes = 150e9;
  gpu.memory_bandwidth_bytes_per_s = 4.8e12;
  gpu.bf16_flops_per_s = 989e12;
  gpu.fp8_flops_per_s = 1979e12;
  gpu.nvlink_bytes_per_s = 450e9;
  gpu.sm_count = 132;
  return gpu;
}

LlmSpec mixture() {
  LlmSpec llm;
  llm.name = "mixture";
  llm.experts = 64;
  llm.experts_per_token = 4;
  llm.moe_ffn = 2048;
  return llm;
}

LlmSpec latent() {
  LlmSpec llm;
  llm.name = "latent";
  llm.heads = 128;
  llm.kv_heads = 1;
  llm.head_dim = 192;
  llm.q_lora_rank = 1536;
  llm.kv_lora_rank = 512;
  llm.qk_nope_head_dim = 128;
  llm.qk_rope_head_dim = 64;
  llm.v_head_dim = 128;
  return llm;
}

Parallelism shape(std::int32_t tensor, std::int32_t pipeline, std::int32_t expert, std::int32_t data) {
  Parallelism made(tensor);
  made.pipeline = pipeline;
  made.expert = expert;
  made.data = data;
  return made;
}

StepModel model(const LlmSpec& llm, const Parallelism& parallel = 1, const GpuSpec& gpu = h200()) {
  auto made = StepModel::make(gpu, llm, parallel, HardwareProfile{}, EngineOptions{});
  if (!made) throw std::runtime_error(made.error().message());
  return std::move(*made);
}

double seconds(const StepModel& m, const StepShape& step) {
  return static_cast<double>(m.mixed(step, MegaHertz(1980)).duration) * 1e-9 /
         static_cast<double>(std::int64_t{1} << kTimeFractionBits);
}

TEST(LatentAttention, KeepsOneLatentPerTokenOnEveryGpu) {
  EXPECT_EQ(latent().kv_bytes_per_token(), 32.0 * (512 + 64) * 2.0);
  // A GPU more adds no room per token: each keeps the whole latent.
  const double one = static_cast<double>(model(latent(), 1).kv_blocks());
  EXPECT_NEAR(static_cast<double>(model(latent(), 8).kv_blocks()) / one, 1.0, 0.3);
  EXPECT_GT(static_cast<double>(model(latent(), 1).kv_blocks()),
            2.0 * static_cast<double>(model(LlmSpec{}).kv_blocks()));
}

TEST(LatentAttention, DecodeReadsLittleAndComputesMuch) {
  // 128 heads per byte of latent: on one GPU the tensor units, not the memory, set the pace.
  const StepShape near{64, 64 * 100, 0, 0, 0};
  const StepShape far{64, 64 * 8100, 0, 0, 0};
  const double read_s = 64.0 * 8000 * latent().kv_bytes_per_token() / 4.8e12;
  const double flops_s = 64.0 * 8000 * 32 * 128 * 2.0 * (2 * 512 + 64) / 989e12;
  const double grown = seconds(model(latent()), far) - seconds(model(latent()), near);
  EXPECT_GT(grown, std::max(read_s, flops_s));
  EXPECT_LT(grown, 2.0 * (read_s + flops_s));
}

TEST(SlidingWindow, BoundsWhatIsReadAndHeld) {
  LlmSpec windowed;
  windowed.sliding_window = 128;
  windowed.windowed_layers = 16;
  const StepShape shorter{8, 8 * 100, 0, 0, 0};
  const StepShape longer{8, 8 * 20'000, 0, 0, 0};
  const double all = seconds(model(LlmSpec{}), longer) - seconds(model(LlmSpec{}), shorter);
  const double half = seconds(model(windowed), longer) - seconds(model(windowed), shorter);
  EXPECT_NEAR(half / all, 0.5, 0.02);
  EXPECT_EQ(seconds(model(windowed), shorter), seconds(model(LlmSpec{}), shorter)) << "inside the window";
  EXPECT_NEAR(windowed.kv_bytes_per_token() / LlmSpec{}.kv_bytes_per_token(), 0.5 * (1.0 + 128.0 / 2048), 1e-12);
  const StepShape prompt{0, 0, 1, 8000, 8000 * 4000};
  EXPECT_LT(seconds(model(windowed), prompt), seconds(model(LlmSpec{}), prompt));
}

TEST(Experts, PaddedBlocksCostTheSameWhateverTheBatchAndLessOnMoreGpus) {
  LlmSpec narrow = mixture();
  narrow.dtype = Dtype::Fp8;
  EngineOptions padded;
  padded.expert_row_block = 128;
  const auto costs = [&](std::int32_t requests, const Parallelism& parallel) {
    const auto with = StepModel::make(h200(), narrow, parallel, HardwareProfile{}, padded);
    EXPECT_TRUE(with.has_value());
    const StepShape step{requests, requests * 100, 0, 0, 0};
    return seconds(*with, step) - seconds(model(narrow, parallel), step);
  };
  // Three products of 64 experts' 127 rows, hidden by 2,048, in each of 32 layers.
  const double flops = 64.0 * 127.0 * 3.0 * 2.0 * 4096.0 * 2048.0 * 32.0;
  const double alone = costs(8, 1);
  EXPECT_GT(alone, flops / 1979e12);
  EXPECT_LT(alone, 3.0 * flops / 1979e12);
  EXPECT_NEAR(costs(64, 1) / alone, 1.0, 1e-6);
  EXPECT_NEAR(costs(8, shape(4, 1, 4, 1)) / alone, 0.25, 0.05);
}

TEST(Experts, StartingAPromptsKernelsTakesTheCpuWhatItsShareSays) {
  const auto prompt_seconds = [](double share) {
    EngineOptions engine;
    engine.framework = Framework::Vllm;
    engine.launch_share = share;
    const auto m = StepModel::make(h200(), mixture(), 1, HardwareProfile{}, engine);
    EXPECT_TRUE(m.has_value());
    return seconds(*m, {0, 0, 1, 64, 64 * 32});
  };
  const double all = times_of(Framework::Vllm).experts.seconds() * mixture().moe_layers();
  EXPECT_GT(all, 0.0);
  EXPECT_NEAR(prompt_seconds(1.0) - prompt_seconds(0.0), all, 1e-6);
  EXPECT_NEAR(prompt_seconds(0.5) - prompt_seconds(0.0), 0.5 * all, 1e-6);
}

TEST(Weights, FourBitsAreReadFasterAndComputedFasterWhereTheGpuCan) {
  LlmSpec narrow;
  narrow.dtype = Dtype::Nvfp4;
  EXPECT_LT(narrow.weight_bytes(), 0.5 * LlmSpec{}.weight_bytes());
  const StepShape one{1, 100, 0, 0, 0};
  const StepShape prompt{0, 0, 1, 8000, 8000 * 4000};
  EXPECT_LT(seconds(model(narrow), one), 0.6 * seconds(model(LlmSpec{}), one));
  EXPECT_NEAR(seconds(model(narrow), prompt) / seconds(model(LlmSpec{}), prompt), 1.0, 0.02) << "16-bit units";
  GpuSpec with = h200();
  with.fp4_flops_per_s = 4.0 * with.bf16_flops_per_s;
  EXPECT_LT(seconds(model(narrow, 1, with), prompt), 0.6 * seconds(model(narrow), prompt));
}

TEST(Mixture, SharedExpertsAndDenseLayersCountForEveryToken) {
  LlmSpec llm = mixture();
  const double plain = llm.active_parameters();
  llm.shared_experts = 1;
  EXPECT_EQ(llm.active_parameters() - plain, 32.0 * llm.expert_parameters());
  llm.dense_layers = 2;
  EXPECT_EQ(llm.parameters(), 32.0 * llm.attention_parameters() + 30.0 * 65 * llm.expert_parameters() +
                                  2.0 * llm.ffn_parameters(llm.ffn) + llm.embedding_parameters());
}

TEST(Mixture, UnevenRoutingReadsFewerExperts) {
  LlmSpec skewed = mixture();
  skewed.expert_skew = 1.2;
  const StepShape step{16, 16 * 100, 0, 0, 0};
  EXPECT_LT(seconds(model(skewed), step), seconds(model(mixture()), step));
  // Spread over GPUs, the most popular experts' GPU holds the others up.
  const StepShape large{0, 0, 1, 8192, 8192};
  EXPECT_GT(seconds(model(skewed, shape(4, 1, 4, 1)), large), seconds(model(mixture(), shape(4, 1, 4, 1)), large));
}

TEST(Mixture, ItsPromptsTakeLongerThanADenseLayersOfTheSameWork) {
  LlmSpec dense;
  dense.ffn = 8192;  // as wide as the four experts of 2,048 that a token passes
  const StepShape prompts{0, 0, 1, 8192, 8192};
  const double ratio = seconds(model(mixture()), prompts) / seconds(model(dense), prompts);
  EXPECT_GT(ratio, 1.2) << "grouped kernels are slower, and tokens are moved to their experts and back";
  EXPECT_LT(ratio, 2.5);
  // Expert parallelism spares a GPU products, not the moving.
  LlmSpec narrow = mixture();
  narrow.moe_ffn = 64;
  const double spread = seconds(model(narrow, shape(4, 1, 4, 1)), prompts);
  EXPECT_GT(spread, 0.6 * seconds(model(narrow, shape(4, 1, 1, 1)), prompts));
}

TEST(Mixture, FourBitWeightsWithoutUnitsForThemAreReadFasterAndComputedSlower) {
  LlmSpec widened = mixture();
  widened.expert_weights = Dtype::Int4;
  const StepShape tokens{16, 16 * 100, 0, 0, 0};
  const StepShape prompts{0, 0, 1, 8192, 8192};
  EXPECT_LT(seconds(model(widened), tokens), 0.7 * seconds(model(mixture()), tokens));
  EXPECT_GT(seconds(model(widened), prompts), 1.3 * seconds(model(mixture()), prompts));
}

TEST(Framework, StartsTheKernelsOfExpertsOneByOneInStepsWithPrompts) {
  const auto with = [](const LlmSpec& llm, Framework framework, const StepShape& step) {
    EngineOptions options;
    options.framework = framework;
    const auto made = StepModel::make(h200(), llm, 1, HardwareProfile{}, options);
    return static_cast<double>(made->mixed(step, MegaHertz(1980)).duration) / 1e9 / (1 << kTimeFractionBits);
  };
  const StepShape brief{0, 0, 1, 16, 128};
  const double layers = mixture().layers;
  // In parallel with the GPU if scheduling overlaps, otherwise before it.
  EXPECT_NEAR(with(mixture(), Framework::TensorRtLlm, brief), layers * 1.0e-3, 3e-3);
  EXPECT_NEAR(with(mixture(), Framework::Vllm, brief) - with(mixture(), Framework::Profile, brief), layers * 0.5e-3,
              1e-4);
  EXPECT_NEAR(with(latent(), Framework::Sglang, brief), layers * 2.0e-3, 3e-3);
  const StepShape lengthy{0, 0, 8, 65'536, 65'536 * 4096};
  EXPECT_NEAR(with(mixture(), Framework::TensorRtLlm, lengthy) / with(mixture(), Framework::Profile, lengthy), 1.0,
              0.01)
      << "hidden";
  const StepShape tokens{16, 16 * 100, 0, 0, 0};
  for (const Framework framework : {Framework::Vllm, Framework::TensorRtLlm}) {
    EXPECT_LT(with(mixture(), framework, tokens), with(mixture(), Framework::Profile, tokens) + 1e-3) << "in a graph";
    EXPECT_LT(with(LlmSpec{}, framework, brief), 0.02) << "dense";
  }
}

TEST(DataParallel, KeepsAttentionWholeAndAddsRoomForKv) {
  const Parallelism data = shape(1, 1, 4, 4);
  EXPECT_EQ(data.gpus(), 4);
  EXPECT_GT(data.weight_bytes(mixture()), Parallelism(4).weight_bytes(mixture()));
  EXPECT_EQ(4.0 * Parallelism(4).weight_bytes(mixture()), mixture().weight_bytes());
  LlmSpec both = latent();
  both.experts = 64;
  both.experts_per_token = 4;
  both.moe_ffn = 2048;
  EXPECT_GT(model(both, data).kv_blocks(), 3 * model(both, 4).kv_blocks()) << "no latent is stored twice";
  // One request keeps the attention of one of four GPUs busy; with four only the experts have more to read.
  const double one = seconds(model(mixture(), data), {1, 1000, 0, 0, 0});
  const double four = seconds(model(mixture(), data), {4, 4000, 0, 0, 0});
  EXPECT_GT(four, one);
  EXPECT_LT(four, 1.6 * one);
}

TEST(Pipeline, ARoundOfAFullPipelineTakesAboutAStepAndABatchOfOneWaitsForAllStages) {
  LlmSpec llm;
  const StepModel two = model(llm, shape(1, 2, 1, 1));
  EXPECT_GT(two.kv_blocks(), 2 * model(llm).kv_blocks());
  const double lone = seconds(two, {1, 1000, 0, 0, 0});
  EXPECT_GE(lone, seconds(model(llm), {1, 1000, 0, 0, 0}));
  EXPECT_LT(lone, 1.1 * seconds(model(llm), {1, 1000, 0, 0, 0}));
  const StepShape prompts{0, 0, 8, 16'384, 16'384 * 1024};
  EXPECT_NEAR(seconds(two, prompts) / seconds(model(llm), prompts), 0.5, 0.08);
}

TEST(Shapes, ThatDoNotDivideAreRefusedInWords) {
  const auto refused = [](const LlmSpec& llm, const Parallelism& parallel) {
    const auto made = StepModel::make(h200(), llm, parallel, HardwareProfile{}, EngineOptions{});
    return made ? std::string() : made.error().message();
  };
  EXPECT_NE(refused(mixture(), shape(4, 1, 3, 1)).find("expert_parallel 3 must divide"), std::string::npos);
  EXPECT_NE(refused(LlmSpec{}, shape(1, 1, 1, 2)).find("use more instances"), std::string::npos);
  EXPECT_NE(refused(LlmSpec{}, shape(1, 33, 1, 1)).find("32 layers"), std::string::npos);
}

TEST(Unmeasured, NamesWhatNoRowHas) {
  const StepModel pipeline = model(LlmSpec{}, shape(1, 2, 1, 1));
  EXPECT_TRUE(pipeline.extrapolated().empty()) << "nothing asked";
  (void)pipeline.decode(1, 100, MegaHertz(1980));
  EXPECT_NE(pipeline.extrapolated().back().find("pipeline parallelism, never measured"), std::string::npos);
  GpuSpec gpu;
  gpu.name = "h200";
  EXPECT_TRUE(unmeasured(gpu, latent(), 8).empty());
  gpu.name = "h100";
  EXPECT_EQ(unmeasured(gpu, latent(), 8).size(), 1U);
  LlmSpec eight_bit_cache;
  eight_bit_cache.kv_dtype = Dtype::Fp8;
  EXPECT_TRUE(unmeasured(gpu, eight_bit_cache, 8).empty());
  gpu.name = "a100-40g";
  EXPECT_TRUE(unmeasured(gpu, mixture(), 8).empty());
  gpu.name = "a100-80g";
  EXPECT_EQ(unmeasured(gpu, mixture(), 8).size(), 1U);
  EXPECT_EQ(unmeasured(gpu, eight_bit_cache, 8).size(), 1U);
}

double all_reduce_seconds(const GpuSpec& gpu, std::int32_t gpus, double bytes, double exponent, double pass_s = 0.0) {
  HardwareProfile profile;
  profile.allreduce_latency_s = 0.0;
  profile.allreduce_pass_s = pass_s;
  profile.allreduce_efficiency = 0.5;
  profile.allreduce_size_exponent = exponent;
  return Operations(gpu, LlmSpec{}, gpus, profile, gpu.clock_max.value()).all_reduce(bytes).seconds;
}

TEST(AllReduce, ASwitchThatSumsSparesAWideGroupWhatARingSendsTwice) {
  GpuSpec gpu = h200();
  const double bytes = 16.0 * 1024.0 * 1024.0;
  const double once = bytes / (gpu.nvlink_bytes_per_s * 0.5);
  EXPECT_NEAR(all_reduce_seconds(gpu, 2, bytes, 0.0), once, 1e-12);
  EXPECT_NEAR(all_reduce_seconds(gpu, 8, bytes, 0.0), 1.75 * once, 1e-12);
  gpu.switch_reduces = true;
  EXPECT_NEAR(all_reduce_seconds(gpu, 2, bytes, 0.0), once, 1e-12);
  EXPECT_NEAR(all_reduce_seconds(gpu, 4, bytes, 0.0), 1.25 * once, 1e-12);
  EXPECT_NEAR(all_reduce_seconds(gpu, 8, bytes, 0.0), 1.125 * once, 1e-12);
}

TEST(AllReduce, LargeMessagesComeNearerToTheLinkAndNeverPassIt) {
  const GpuSpec gpu = h200();
  const double reference = 16.0 * 1024.0 * 1024.0;  // two GPUs exchange all of the data to be reduced
  const auto rate = [&](double bytes) { return bytes / all_reduce_seconds(gpu, 2, bytes, 0.1); };
  EXPECT_NEAR(rate(reference / 16.0), 0.5 * gpu.nvlink_bytes_per_s, 1.0);
  EXPECT_NEAR(rate(reference), 0.5 * gpu.nvlink_bytes_per_s, 1.0);
  EXPECT_NEAR(rate(reference * 4.0), 0.5 * gpu.nvlink_bytes_per_s * std::pow(4.0, 0.1), 1.0);
  EXPECT_NEAR(rate(reference * 1e6), gpu.nvlink_bytes_per_s, 1.0);
}

TEST(AllReduce, SmallMessagesAreReadFromAllPeersInOnePass) {
  GpuSpec gpu = h200();
  gpu.switch_reduces = true;
  const double rate = 0.5 * gpu.nvlink_bytes_per_s;
  const double pass = 4e-6;
  const auto seconds = [&](std::int32_t gpus, double bytes) { return all_reduce_seconds(gpu, gpus, bytes, 0.0, pass); };
  EXPECT_NEAR(seconds(8, 65536.0), 7.0 * 65536.0 / rate, 1e-12);
  EXPECT_NEAR(seconds(8, 1048576.0), pass + 1.125 * 1048576.0 / rate, 1e-12);
  EXPECT_NEAR(seconds(2, 4194304.0), 4194304.0 / rate, 1e-12);  // two GPUs have nothing to gain from a second pass
}

}  // namespace
}  // namespace wattle::engine
