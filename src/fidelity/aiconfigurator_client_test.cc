#include "fidelity/aiconfigurator_client.h"

#include <gtest/gtest.h>

#include "fidelity/experiment.h"

namespace wattle::fidelity {
namespace {

TEST(AiconfiguratorClient, aiperf_sends_a_hundred_prompts_over_and_over) {
  const auto distinct = [](const char* backend, double tokens) {
    return run_of({"source_file=aic-auto-gap-analysis/x.csv", backend, "qwen3-32b", "h200", tokens, 512, 8})
        .load.distinct_prompts;
  };
  EXPECT_EQ(distinct("vllm", 4000), 100);
  EXPECT_EQ(distinct("trtllm", 8000), 100);
  const auto sent_before = [](std::int32_t slots) {
    return run_of({"source_file=aic-auto-gap-analysis/x.csv", "vllm", "qwen3-32b", "h200", 4000, 512, slots})
        .load.prompts_sent_before;
  };
  EXPECT_EQ(sent_before(8), 16) << "its warm-up";
  EXPECT_EQ(sent_before(64), 100);
  EXPECT_EQ(distinct("sglang", 4000), 0) << "started without";
  EXPECT_EQ(distinct("vllm", 4096), 0) << "another client";
  EXPECT_EQ(run_of({"2026-04-06.csv", "vllm", "llama-3.1-70b", "h200", 1000, 512, 8}).load.distinct_prompts, 0)
      << "InferenceMAX";
}

TEST(AiconfiguratorClient, an_engine_has_room_for_the_prompt_its_generator_gave_it) {
  SampleRow row{"source_file=aic-auto-gap-analysis/data/h100_sxm/trtllm/1.0.0rc3/Qwen_Qwen3-32B.csv",
                "trtllm",
                "qwen3-32b",
                "h100",
                2048,
                512,
                128};
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
    return run_of({source, backend, "qwen3-32b", "h100", 1024, 256, 64}).engine;
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

TEST(AiconfiguratorClient, inferencemaxs_engines_start_as_its_scripts_say) {
  const auto at = [](const char* backend, const char* model, const char* gpu, std::int32_t concurrency,
                     std::int32_t data = 1) {
    return run_of({"db-dump/2026-04-27", backend, model, gpu, 1024, 1024, concurrency, data});
  };
  EXPECT_EQ(at("sglang", "deepseek-v3", "b200", 4).engine.receive_interval, 10);
  EXPECT_EQ(at("sglang", "deepseek-v3", "b200", 64).engine.receive_interval, 30);
  EXPECT_EQ(at("sglang", "deepseek-v3", "h200", 64).engine.receive_interval, 1);
  EXPECT_EQ(at("trtllm", "deepseek-v3", "h200", 64, 8).engine.receive_interval, 60);
  EXPECT_EQ(at("trtllm", "deepseek-v3", "h200", 64).engine.receive_interval, 1);
  EXPECT_EQ(at("trtllm", "llama-3.1-70b", "b200", 64).engine.batch_wait_steps, 20);
  EXPECT_EQ(at("trtllm", "gpt-oss-120b", "b200", 64).load.front_end_processes, 4.0);
  EXPECT_EQ(at("trtllm", "llama-3.1-70b", "b200", 64).load.front_end_processes, 1.0);
  EXPECT_EQ(at("vllm", "llama-3.1-70b", "b200", 64).engine.request_gap, Span()) << "temperature 0";
  const auto graphless = [](const char* backend, const char* model, const char* gpu, std::int32_t tensor) {
    return run_of({"db-dump/2026-04-27", backend, model, gpu, 1024, 1024, 64, 1, tensor}).engine.prompt_step_gap;
  };
  EXPECT_GT(graphless("vllm", "llama-3.1-70b", "b200", 4), graphless("vllm", "llama-3.1-70b", "b200", 2));
  EXPECT_EQ(graphless("vllm", "llama-3.1-70b", "b200", 1), Span());
  EXPECT_EQ(graphless("vllm", "llama-3.1-70b", "h200", 4), Span());
  EXPECT_EQ(graphless("vllm", "gpt-oss-120b", "b200", 4), Span());
  EXPECT_EQ(graphless("trtllm", "llama-3.1-70b", "b200", 4), Span());
  const SampleRow own{"source_file=aic-auto-gap-analysis/data/x.csv", "trtllm", "deepseek-v3", "b200", 1024, 512, 64};
  EXPECT_EQ(run_of(own).engine.request_gap, std::nullopt);
  EXPECT_NEAR(run_of(own).load.front_end_token_s, 10.0 * at("trtllm", "deepseek-v3", "b200", 64).load.front_end_token_s,
              1e-12);
  SampleRow repeated = own;
  repeated.source = "source_file=kimi-k2.5-gap-analysis.csv";
  EXPECT_TRUE(own.fixed_lengths());
  EXPECT_FALSE(repeated.fixed_lengths()) << "InferenceMAX's runs";
}

TEST(AiconfiguratorClient, KvCachesAreAsNarrowAsScriptsAskFor) {
  const auto narrow = [](const char* backend, const char* model, const char* gpu, const char* day = "2026-03-25") {
    return narrow_kv_cache({std::string("x.csv; measured=") + day, backend, model, gpu, 1024, 1024, 16});
  };
  EXPECT_TRUE(narrow("vllm", "llama-3.1-70b", "h100"));
  EXPECT_TRUE(narrow("trtllm", "deepseek-v3", "h200"));
  EXPECT_FALSE(narrow("sglang", "deepseek-v3", "h200"));
  EXPECT_TRUE(narrow("sglang", "deepseek-v3", "b200"));
  EXPECT_FALSE(narrow("vllm", "minimax-m2", "b200"));
  EXPECT_TRUE(narrow("vllm", "minimax-m2", "b200", "2026-04-08"));
  EXPECT_FALSE(narrow("vllm", "minimax-m2", "h200", "2026-04-08"));
  EXPECT_FALSE(narrow("trtllm", "gpt-oss-120b", "h200"));
  EXPECT_TRUE(narrow("trtllm", "gpt-oss-120b", "b200"));
  EXPECT_TRUE(narrow("vllm", "gpt-oss-120b", "b200"));
  EXPECT_FALSE(narrow("vllm", "gpt-oss-120b", "b200", "2025-11-10"));
  EXPECT_FALSE(narrow("vllm", "gpt-oss-120b", "h100"));
  EXPECT_TRUE(narrow_kv_cache({"aic-auto-gap-analysis/x.csv", "trtllm", "qwen3-32b", "h100", 1024, 512, 8}));
  EXPECT_FALSE(narrow_kv_cache({"aic-auto-gap-analysis/x.csv", "vllm", "qwen3-32b", "h100", 1024, 512, 8}));
}

}  // namespace
}  // namespace wattle::fidelity
