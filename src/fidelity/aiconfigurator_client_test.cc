#include "fidelity/aiconfigurator_client.h"

#include <gtest/gtest.h>

#include "fidelity/experiment.h"

namespace wattle::fidelity {
namespace {

TEST(AiconfiguratorClient, aiperf_sends_a_hundred_prompts_over_and_over) {
  const auto distinct = [](const char* backend, double tokens) {
    return run_of({"source_file=aic-auto-gap-analysis/x.csv", backend, tokens, 512, 8}).load.distinct_prompts;
  };
  EXPECT_EQ(distinct("vllm", 4000), 100);
  EXPECT_EQ(distinct("trtllm", 8000), 100);
  EXPECT_EQ(distinct("sglang", 4000), 0) << "started without";
  EXPECT_EQ(distinct("vllm", 4096), 0) << "another client";
  EXPECT_EQ(run_of({"2026-04-06.csv", "vllm", 1000, 512, 8}).load.distinct_prompts, 0) << "InferenceMAX";
}

TEST(AiconfiguratorClient, an_engine_has_room_for_the_prompt_its_generator_gave_it) {
  SampleRow row{"source_file=aic-auto-gap-analysis/data/h100_sxm/trtllm/1.0.0rc3/Qwen_Qwen3-32B.csv", "trtllm", 2048,
                512, 128};
  EXPECT_EQ(run_of(row).engine.max_num_batched_tokens, 2048 + 512 + 1500);
  EXPECT_EQ(run_of(row).load.requests, 2000);
  EXPECT_EQ(run_of(row).load.shortest, 1.0);
  row.source = "source_file=2026-04-06.csv";
  EXPECT_EQ(run_of(row).engine.max_num_batched_tokens, benchmark_engine().max_num_batched_tokens);
  EXPECT_EQ(run_of(row).load.requests, 1280);
  EXPECT_LT(run_of(row).load.shortest, 1.0);
}

TEST(AiconfiguratorClient, a_backend_batches_as_its_engine_options_say) {
  const auto engine = [](const char* source, const char* backend) {
    return run_of({source, backend, 1024, 256, 64}).engine;
  };
  const engine::EngineOptions trtllm = engine("2026-04-06.csv", "trtllm");
  EXPECT_TRUE(trtllm.whole_prompts && trtllm.chunked_prefill && trtllm.reserve_output && trtllm.async_scheduling);
  EXPECT_EQ(trtllm.framework, engine::Framework::TensorRtLlm);
  const engine::EngineOptions sglang = engine("2026-04-06.csv", "sglang");
  EXPECT_TRUE(sglang.whole_prompts && sglang.reserve_output && sglang.async_scheduling);
  EXPECT_FALSE(sglang.chunked_prefill) << "prompts first";
  const engine::EngineOptions mixed = engine("aic-auto-gap-analysis/data/h100_sxm/sglang/0.5.6/x.csv", "sglang");
  EXPECT_TRUE(mixed.chunked_prefill);
  EXPECT_FALSE(mixed.whole_prompts);
  const engine::EngineOptions vllm = engine("2026-04-06.csv", "vllm");
  EXPECT_FALSE(vllm.whole_prompts || vllm.reserve_output);
  EXPECT_TRUE(vllm.async_scheduling) << "InferenceMAX's scripts ask for it";
  EXPECT_FALSE(engine("source_file=aic-auto-gap-analysis/x.csv", "vllm").async_scheduling) << "came after 0.12";
}

}  // namespace
}  // namespace wattle::fidelity
