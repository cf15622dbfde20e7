// Cells that cannot be true, one at a time in otherwise good rows of every kind of set.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/scratch_folder.h"
#include "fidelity/h100_catalog_test.h"

namespace wattle::fidelity {
namespace {

constexpr const char* kMlEnergy = "mlenergy/v3_llm_configs.csv";
constexpr const char* kMlEnergy2024 = "mlenergy/v2_llm_configs.csv";
constexpr const char* kSample = "aiconfigurator/silicon_sample.csv";
constexpr const char* kSplitwise = "splitwise-perf/perf_model.csv";
constexpr const char* kFreesh = "LLM_Serving_FREESH/pool_profile_llama3_70b.csv";
constexpr const char* kEnergyLlm = "energyllm-a100-40g/clock_sweep.csv";
constexpr const char* kSweep = "vllm-fork-Louis-99/h100_llama70b_tp_freq_load_profile.csv";

struct Good {
  const char* file;
  std::string header;
  std::string row;
};

const Good kGood[] = {
    {kMlEnergy,
     "task,model_id,gpu_model,num_gpus,data_parallel,expert_parallel,weight_precision,max_num_seqs,avg_batch_size,"
     "avg_power_watts,median_itl_ms,energy_per_token_joules,avg_output_len",
     "lm-arena-chat,meta-llama/Llama-3.1-8B-Instruct,H100,1,1,1,bfloat16,8,7.5,400,10,1,300"},
    {kMlEnergy2024,
     "task,gpu,model,config,TP,PP,Energy/req (J),Avg TPOT (s),Token tput (tok/s),Avg Output Tokens,Avg BS (reqs),"
     "Max BS (reqs)",
     "chat,H100 80GB HBM3,meta-llama/Meta-Llama-3.1-8B-Instruct,bs64,1,1,60,0.03,2000,400,64,64"},
    {kSample,
     "system,model_path,precision,mode,backend,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,tp_size,"
     "gemm_quant_mode,batch_size,isl,osl,silicon_data_source,silicon_ttft_ms,silicon_tpot_ms",
     "h100_sxm,meta-llama/Llama-3.1-8B-Instruct,fp8,agg,vllm,1,,0,0,1,fp8,8,1024,256,x,100,10"},
    {kSplitwise,
     "model,hardware,tensor_parallel,prompt_size,batch_size,token_size,prompt_time,token_time,average_power",
     "llama-3-70b,h100-80gb,8,512,4,128,100,40,0"},
    {kFreesh,
     "request_type,gpu,partition,gpus_per_worker,worker_power_w,max_qps,mean_e2e_latency_s,mean_ttft_ms,mean_tbt_ms",
     "SS,H100,1,4,1200,2.5,3,100,30"},
    {kEnergyLlm, "model,clock_mhz,batch,batch_latency_s,gpu_power_w", "llama-3.1-8b,1410,16,4,200"},
    {kSweep, "tp,input_len,output_len,freq,rps,power,ttft_p99,tpot_p99", "4,1023,99,1200,2,1500,0.2,0.03"},
};

std::size_t column_of(const std::string& header, std::string_view column) {
  std::size_t index = 0;
  std::size_t from = 0;
  while (std::string_view(header).substr(from, header.find(',', from) - from) != column) {
    from = header.find(',', from) + 1;
    ++index;
  }
  return index;
}

std::string with_cell(const Good& good, std::string_view column, std::string_view value) {
  std::size_t from = 0;
  for (std::size_t i = column_of(good.header, column); i > 0; --i) from = good.row.find(',', from) + 1;
  const std::size_t to = std::min(good.row.find(',', from), good.row.size());
  return good.row.substr(0, from) + std::string(value) + good.row.substr(to);
}

Result<Collection> read(const Good& good, const std::string& row) {
  const ScratchFolder folder;
  folder.write(good.file, good.header + "\n" + good.row + "\n" + row + "\n");
  Catalog catalog = h100_catalog();
  for (const char* name : {"h100-pcie", "a100-40g"}) {
    catalog.gpus[name] = catalog.gpus["h100"];
    catalog.gpus[name].name = name;
  }
  catalog.gpus["a100-40g"].clock_max = MegaHertz(1410);
  return collect(folder.path().string(), catalog);
}

struct Bad {
  const char* file;
  const char* column;
  const char* value;
};

TEST(MalformedRows, AreNamedByFileLineAndColumn) {
  for (const Good& good : kGood) {
    const auto fine = read(good, good.row);
    EXPECT_TRUE(fine) << fine.error().message();
  }
  for (const Bad& bad : {Bad{kMlEnergy, "avg_batch_size", "0"},
                         {kMlEnergy, "avg_batch_size", "1e8"},
                         {kMlEnergy, "max_num_seqs", "-5"},
                         {kMlEnergy, "max_num_seqs", "8.5"},
                         {kMlEnergy, "max_num_seqs", "1e12"},
                         {kMlEnergy, "num_gpus", "0"},
                         {kMlEnergy, "avg_output_len", "0"},
                         {kMlEnergy, "avg_power_watts", "-500"},
                         {kMlEnergy, "avg_power_watts", "0"},
                         {kMlEnergy, "median_itl_ms", "inf"},
                         {kMlEnergy2024, "Avg BS (reqs)", "0"},
                         {kMlEnergy2024, "Max BS (reqs)", "0"},
                         {kMlEnergy2024, "Avg TPOT (s)", "0"},
                         {kSample, "isl", "1e12"},
                         {kSample, "isl", "0"},
                         {kSample, "osl", "-3"},
                         {kSample, "tp_size", "1.5"},
                         {kSample, "batch_size", "0.5"},
                         {kSample, "silicon_ttft_ms", "-5"},
                         {kSample, "silicon_ttft_ms", "0"},
                         {kSplitwise, "prompt_time", "-4"},
                         {kSplitwise, "batch_size", "0"},
                         {kSplitwise, "average_power", "-0.5"},
                         {kFreesh, "worker_power_w", "-5"},
                         {kEnergyLlm, "batch_latency_s", "0"},
                         {kEnergyLlm, "batch", "100000000000"},
                         {kEnergyLlm, "clock_mhz", "1417"},
                         {kSweep, "freq", "5000"},
                         {kSweep, "power", "0"}}) {
    const Good& good =
        *std::ranges::find_if(kGood, [&](const Good& g) { return std::string_view(g.file) == bad.file; });
    const auto all = read(good, with_cell(good, bad.column, bad.value));
    ASSERT_FALSE(all) << bad.file << ' ' << bad.column << ' ' << bad.value;
    EXPECT_EQ(all.error().kind, ErrorKind::BadInput);
    EXPECT_NE(all.error().message().find(std::string(bad.file) + ":3: " + bad.column), std::string::npos)
        << all.error().message();
  }
}

}  // namespace
}  // namespace wattle::fidelity
