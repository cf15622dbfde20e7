// Rows without a score say why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_folder.h"
#include "fidelity/h100_catalog_test.h"
#include "fidelity/page.h"
#include "fidelity/score.h"

namespace wattle::fidelity {
namespace {

bool one_has(const std::vector<std::string>& lines, std::string_view what) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.contains(what); });
}

constexpr std::string_view kMlEnergyHeader =
    "task,model_id,gpu_model,num_gpus,data_parallel,expert_parallel,weight_precision,max_num_seqs,avg_batch_size,"
    "avg_power_watts,median_itl_ms,energy_per_token_joules,avg_output_len\n";

constexpr std::string_view kSampleHeader =
    "system,model_path,precision,mode,backend,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,tp_size,"
    "gemm_quant_mode,batch_size,isl,osl,silicon_data_source,silicon_ttft_ms,silicon_tpot_ms\n";
constexpr std::string_view kSplitwiseHeader =
    "model,hardware,tensor_parallel,prompt_size,batch_size,token_size,prompt_time,token_time,average_power\n";

TEST(Score, a_row_that_cannot_run_keeps_the_reason) {
  const ScratchFolder folder;
  folder.write("mlenergy/v3_llm_configs.csv",
               fmt::format("{}chat,meta-llama/Llama-3.1-8B-Instruct,H100,3,1,1,bfloat16,8,8,400,10,1,300\n"
                           "chat,meta-llama/Llama-3-70B-Instruct,H100,1,1,1,bfloat16,8,8,400,10,1,300\n"
                           "code,meta-llama/Llama-3.1-8B-Instruct,H100,1,1,1,bfloat16,8,8,400,10,1,9999999\n",
                           kMlEnergyHeader));
  Catalog catalog = h100_catalog();
  const auto all = collect(folder.path().string(), catalog);
  ASSERT_TRUE(all) << all.error().message();
  const Scores scores = score(all->experiments, catalog, 1, true);
  EXPECT_TRUE(one_has(scores.infeasible, "Llama-3.1-8B-Instruct batch=8, power_w (llama-3.1-8b on 3 x h100: "));
  EXPECT_TRUE(one_has(scores.infeasible, "GB per GPU for weights and activations"));
  EXPECT_TRUE(one_has(scores.infeasible, "power_w (a request exceeds the KV cache)"));
  EXPECT_NE(to_markdown(scores, {}, {}).find("a request exceeds the KV cache"), std::string::npos);

  catalog.profiles.clear();
  EXPECT_TRUE(one_has(score(all->experiments, catalog, 1, true).infeasible, "(h100: has no profile)"));
}

struct Unscored {
  const char* file;
  std::string header;
  std::string row;
  const char* said;
};

/// One line of each reader that chooses among its rows, and what it says about it.
const Unscored kUnscored[] = {
    {"mlenergy/v3_llm_configs.csv", std::string(kMlEnergyHeader),
     "chat,acme/New-8B,H100,1,1,1,bfloat16,8,8,400,10,1,300",
     "mlenergy/v3_llm_configs (1 row: unknown model acme/New-8B)"},
    {"mlenergy/v3_llm_configs.csv", std::string(kMlEnergyHeader),
     "chat,Llama-3.1-8B,GH200,1,1,1,bfloat16,8,8,400,10,1,300", "(1 row: unknown GPU GH200)"},
    {"mlenergy/v3_llm_configs.csv", std::string(kMlEnergyHeader), "chat,Llama-3.1-8B,H100,1,1,1,int8,8,8,400,10,1,300",
     "(1 row: weights in int8)"},
    {"mlenergy/v3_llm_configs.csv", std::string(kMlEnergyHeader),
     "image-chat,Llama-3.1-8B,H100,1,1,1,bfloat16,8,8,400,10,1,300", "(1 row: task image-chat)"},
    {"mlenergy/v3_llm_configs.csv", std::string(kMlEnergyHeader),
     "chat,Llama-3.1-8B,H100,4,3,1,bfloat16,8,8,400,10,1,300", "(1 row: 4 GPUs in 3 data-parallel groups)"},
    {"aiconfigurator/silicon_sample.csv", std::string(kSampleHeader),
     "gb200_nvl72,Llama-3.1-8B,fp8,agg,vllm,1,1,1,1,1,fp8,8,1024,256,x,100,10",
     "aiconfigurator/silicon_sample (1 row: unknown GPU gb200_nvl72)"},
    {"aiconfigurator/silicon_sample.csv", std::string(kSampleHeader),
     "h100_sxm,Llama-3.1-8B,int8,agg,vllm,1,1,1,1,1,int8_wo,8,1024,256,x,100,10", "(1 row: weights in int8_wo)"},
    {"aiconfigurator/silicon_sample.csv", std::string(kSampleHeader),
     "h100_sxm,Llama-3.1-8B,fp8,agg,lmdeploy,1,1,1,1,1,fp8,8,1024,256,x,100,10", "(1 row: unknown backend lmdeploy)"},
    {"aiconfigurator/silicon_sample.csv", std::string(kSampleHeader),
     "h100_sxm,Llama-3.1-8B,fp8,disagg,vllm,,,,,,fp8,,1024,256,x,100,10", "(1 row: prefill and decode apart)"},
    {"splitwise-perf/perf_model.csv", std::string(kSplitwiseHeader), "llama-3-70b,v100-32gb,8,512,4,128,100,40,0",
     "splitwise-perf (1 row: unknown GPU v100-32gb)"},
    {"splitwise-perf/perf_model.csv", std::string(kSplitwiseHeader), "acme,h100-80gb,8,512,4,128,100,40,0",
     "(1 row: unknown model acme)"},
    {"LLM_Serving_FREESH/pool_profile_llama3_70b.csv",
     "request_type,gpu,partition,gpus_per_worker,worker_power_w,max_qps,mean_e2e_latency_s,mean_ttft_ms,mean_tbt_ms\n",
     "SS,T4,1,4,1200,2.5,3,100,30", "LLM_Serving_FREESH (1 row: unknown GPU T4)"},
    {"energyllm-a100-40g/clock_sweep.csv", "model,clock_mhz,batch,batch_latency_s,gpu_power_w\n",
     "acme-9b,1200,16,4,200", "energyllm-a100-40g (1 row: unknown model acme-9b)"},
    {"energyllm-a100-40g/clock_sweep.csv", "model,clock_mhz,batch,batch_latency_s,gpu_power_w\n",
     "llama-3.1-8b,1200,16,4,200", "(1 row: no row at 1410 MHz to compare with)"},
    {"aiconfigurator/h100_gemm.csv", "dtype,m,n,k,latency_ms\n", "nvfp4,1,1024,1024,0.01",
     "aiconfigurator/h100-gemm (1 row: products in nvfp4)"},
    {"aiconfigurator/h100_generation_attention.csv",
     "kv_cache_dtype,num_heads,num_kv_heads,batch_size,context_len,latency_ms\n", "fp8,32,8,4,1024,0.02",
     "aiconfigurator/h100-generation-attention (1 row: KV cache in fp8)"},
    {"aiconfigurator/h100_allreduce.csv", "backend,num_gpus,message_elems,latency_ms\n", "vllm_eager,2,4096,0.02",
     "aiconfigurator/h100-allreduce (1 row: backend vllm_eager)"},
};

Catalog with_other_cards() {
  Catalog catalog = h100_catalog();
  for (const char* name : {"h100-pcie", "a100-80g", "a100-40g", "l40s"}) {
    catalog.gpus[name] = catalog.gpus["h100"];
    catalog.gpus[name].name = name;
  }
  catalog.gpus["a100-40g"].clock_max = MegaHertz(1410);
  return catalog;
}

/// The experiments that files make; facts and tables of papers need none.
std::vector<Experiment> of_files(const Collection& all) {
  std::vector<Experiment> made;
  std::ranges::copy_if(all.experiments, std::back_inserter(made), [](const Experiment& e) {
    return !e.set.starts_with("facts/") && !e.set.starts_with("DynamoLLM/") && !e.set.starts_with("throttLL");
  });
  return made;
}

TEST(Collect, a_row_that_is_not_scored_is_counted_with_its_reason) {
  for (const Unscored& of : kUnscored) {
    const ScratchFolder folder;
    folder.write(of.file, of.header + of.row + "\n");
    const auto all = collect(folder.path().string(), with_other_cards());
    ASSERT_TRUE(all) << all.error().message();
    EXPECT_TRUE(of_files(*all).empty()) << of.row;
    EXPECT_TRUE(one_has(all->absent(), of.said)) << of.said << ", but " << all->absent().back();
  }
}

TEST(Collect, a_row_is_of_the_card_that_it_names) {
  const ScratchFolder folder;
  folder.write("splitwise-perf/perf_model.csv", fmt::format("{}llama-3-70b,a100-80gb,8,512,4,128,100,40,0.5\n"
                                                            "llama-3-70b,h100-80gb,8,512,4,128,60,30,0.5\n"
                                                            "llama-3-70b,h100-80gb,8,512,4,128,61,30,0.5\n"
                                                            "llama-3-70b,l40s,8,512,4,128,200,80,0.5\n",
                                                            kSplitwiseHeader));
  folder.write("LLM_Serving_FREESH/pool_profile_llama3_70b.csv",
               "request_type,gpu,partition,gpus_per_worker,worker_power_w,max_qps,mean_e2e_latency_s,mean_ttft_ms,"
               "mean_tbt_ms\nSS,L40S,1,4,1200,2.5,3,100,30\nSS,H100,1,4,1200,2.5,3,100,30\n");
  folder.write("mlenergy/v3_llm_configs.csv",
               fmt::format("{}chat,Llama-3.1-8B,NVIDIA H100 PCIe,1,1,1,fp8,8,8,300,10,1,300\n", kMlEnergyHeader));
  const auto all = collect(folder.path().string(), with_other_cards());
  ASSERT_TRUE(all) << all.error().message();
  std::vector<std::string> cards;
  for (const Experiment& e : of_files(*all)) cards.push_back(e.set + " " + e.gpu);
  EXPECT_EQ(cards, (std::vector<std::string>{"mlenergy/h100-pcie-dense (kept busy) h100-pcie",
                                             "splitwise-perf/a100-80g a100-80g", "splitwise-perf/h100 h100",
                                             "splitwise-perf/l40s l40s", "FREESH/pool-profile l40s",
                                             "FREESH/pool-profile h100-pcie"}));
  EXPECT_TRUE(one_has(all->absent(), "splitwise-perf (1 row: a condition measured again)"));
}

TEST(Collect, a_checkpoint_that_its_name_says_is_in_8_bits_is_run_so) {
  const auto simulated = [](const char* model) {
    const ScratchFolder folder;
    folder.write("mlenergy/v2_llm_configs.csv",
                 fmt::format("task,gpu,model,config,TP,PP,Energy/req (J),Avg TPOT (s),Token tput (tok/s),"
                             "Avg Output Tokens,Avg BS (reqs),Max BS (reqs)\n"
                             "chat,H100 80GB HBM3,{},bs64,1,1,60,0.03,2000,400,64,64\n",
                             model));
    Catalog catalog = h100_catalog();
    catalog.llms["llama-3.1-8b"].layers = 32;
    const auto all = collect(folder.path().string(), catalog);
    EXPECT_TRUE(all) << all.error().message();
    return of_files(*all).front().simulate(catalog.profiles.at("h100"), Rival{})->values.front();
  };
  EXPECT_LT(simulated("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8"), simulated("meta-llama/Meta-Llama-3.1-8B-Instruct"));
}

}  // namespace
}  // namespace wattle::fidelity
